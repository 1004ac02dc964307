#include "common/format.h"

// The only file with fmt's code (see CMakeLists.txt). fmt is not a library at run time, so the
// client library inside a user's program needs no libfmt.
#include <fmt/format.h>

#include <iterator>

namespace cuspan {
namespace internal {

std::string FormatArguments(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

void AppendArguments(std::string& text, fmt::string_view format, fmt::format_args arguments) {
  fmt::vformat_to(std::back_inserter(text), format, arguments);
}

}  // namespace internal

std::string Printable(std::string_view text, std::size_t most) {
  std::string printable(text.substr(0, most));
  for (char& c : printable)
    if (c < 0x20 || c > 0x7e) c = '?';
  return printable;
}

}  // namespace cuspan
