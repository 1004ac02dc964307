// What a kernel is made of besides its own body, and whether slices of it do what it does.
#pragma once

#include <string_view>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::slicing {

// Of all that the kernel can reach. The pointers are into the module; each list is in its order.
struct KernelNeeds {
  std::vector<const ptx::Function*> functions;  // With a body.
  std::vector<const ptx::Function*> externals;  // Those of the driver, as vprintf.
  std::vector<const ptx::Variable*> globals;
  std::vector<const ptx::Variable*> constants;
  std::vector<const ptx::Variable*> shared;
};

// `entry` is a kernel of `module`, which is that of `text`. kUnsupported with one of `reasons`
// (slice_ptx.h) if it can not be sliced.
Result<KernelNeeds> FindNeeds(std::string_view text, const ptx::Module& module,
                              const ptx::Function& entry);

// "<reason> (PTX line <line>: <what>)"
Status RefusedFor(std::string_view reason, std::uint32_t line, std::string_view what);

}  // namespace cuspan::slicing
