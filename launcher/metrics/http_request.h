// The part of HTTP/1.1 (RFC 9112) needed to serve metrics. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cuspan {

// Maximum bytes of a request with its headers.
inline constexpr std::size_t kMaxOfRequest = 8 * 1024;

// True if `received` contains the end of a request's headers.
bool IsWhole(std::string_view received);

struct HttpRequest {
  std::string_view method;  // Empty: not a valid request.
  std::string_view path;    // Without "?" and the text after it.
  std::string_view accept;  // Header Accept.
};
// Requires IsWhole. The result refers to `received`.
HttpRequest ParseRequest(std::string_view received);

// A complete response; the connection is closed after it. For the method HEAD it has no body.
std::string HttpAnswer(std::string_view status, std::string_view content_type,
                       std::string_view body, bool head);

}  // namespace cuspan
