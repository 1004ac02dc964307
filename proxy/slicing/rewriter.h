// Rewrites a kernel's functions: block indices are those of the program's whole launch, and
// variables' addresses are those of the original module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::slicing {

// Data for rewriting all bodies of a module.
struct Rewriting {
  std::string_view text;  // Text of the original module.
  // Prefix of new names; it does not occur in `text`.
  std::string stem;
  // Addresses of all .global variables used.
  std::map<std::string_view, std::uint64_t> addresses;

  // Name of the kernel's additional last parameter, SliceArguments.
  std::string ArgumentsName() const { return stem + "arguments"; }
};

std::string StemFor(std::string_view text);

// The new body of the function, with its braces. The function must have passed FindNeeds.
// kUnsupported (reasons::kForm) if it can not be rewritten.
Result<std::string> RewriteBody(const Rewriting& rewriting, const ptx::Function& function);

}  // namespace cuspan::slicing
