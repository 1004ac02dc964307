// The text of a kernel's functions, in which block indices and the addresses of variables are those
// of the original's whole launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::slicing {

// What all bodies of a module are rewritten with.
struct Rewriting {
  std::string_view text;  // Of the original module.
  // Names that begin so, also behind a %, are in no place of `text`.
  std::string stem;
  // Of all .global variables that are used.
  std::map<std::string_view, std::uint64_t> addresses;

  // The kernel's last parameter, SliceArguments.
  std::string ArgumentsName() const { return stem + "arguments"; }
};

std::string StemFor(std::string_view text);

// What is to stand in place of the function's body, with its braces. FindNeeds has nothing against
// the function. kUnsupported (reasons::kForm) if it can not be written.
Result<std::string> RewriteBody(const Rewriting& rewriting, const ptx::Function& function);

}  // namespace cuspan::slicing
