#pragma once

#include <string_view>

namespace cuspan {

// Blanks between the words of a line. "\r" ends lines of files written on other systems.
inline constexpr std::string_view kBlanks = " \t\r";

// `text` without the blanks at both ends.
inline std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace cuspan
