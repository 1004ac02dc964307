#include "common/format.h"

// The one file that holds fmt's code (see CMakeLists.txt). Nothing of it is a library
// at run time, so what lives inside a user's program brings no libfmt with it.
#include <fmt/format.h>

#include <iterator>

namespace cuspan::internal {

std::string FormatArguments(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

void AppendArguments(std::string& text, fmt::string_view format, fmt::format_args arguments) {
  fmt::vformat_to(std::back_inserter(text), format, arguments);
}

}  // namespace cuspan::internal
