// Text from values, in the style of std::format.
//
// The formatting itself is compiled once, in format.cc. fmt's header-only form in every file of the
// project doubled the build time.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace cuspan {

namespace internal {
std::string FormatArguments(fmt::string_view format, fmt::format_args arguments);
void AppendArguments(std::string& text, fmt::string_view format, fmt::format_args arguments);
}  // namespace internal

template <typename... Args>
std::string Format(fmt::format_string<Args...> format, Args&&... args) {
  return internal::FormatArguments(format, fmt::make_format_args(args...));
}

// Appends to `text`, reusing its memory.
template <typename... Args>
void AppendFormat(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  internal::AppendArguments(text, format, fmt::make_format_args(args...));
}

// Printable ASCII only, at most `most` characters. For text from others shown on a terminal.
std::string Printable(std::string_view text, std::size_t most);

}  // namespace cuspan
