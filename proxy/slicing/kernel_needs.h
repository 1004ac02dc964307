// Finds the functions and variables used by a kernel, and checks that slices of it are equivalent.
#pragma once

#include <string_view>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::slicing {

// Everything reachable from the kernel. Pointers are into the module; each list is in the module's
// order.
struct KernelNeeds {
  std::vector<const ptx::Function*> functions;  // Functions with a body.
  std::vector<const ptx::Function*> externals;  // Provided by the driver, such as vprintf.
  std::vector<const ptx::Variable*> globals;
  std::vector<const ptx::Variable*> constants;
  std::vector<const ptx::Variable*> shared;
};

// `entry` is a kernel of `module`, parsed from `text`. kUnsupported with one of `reasons`
// (slice_ptx.h) if it can not be sliced.
Result<KernelNeeds> FindNeeds(std::string_view text, const ptx::Module& module,
                              const ptx::Function& entry);

// "<reason> (PTX line <line>: <what>)"
Status RefusedFor(std::string_view reason, std::uint32_t line, std::string_view what);

}  // namespace cuspan::slicing
