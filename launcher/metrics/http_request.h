// The little of HTTP/1.1 (RFC 9112) that a reader of metrics needs. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cuspan {

// A request is taken up to so many bytes, with its headers.
inline constexpr std::size_t kMaxOfRequest = 8 * 1024;

// Whether `received` has the end of a request's headers.
bool IsWhole(std::string_view received);

struct HttpRequest {
  std::string_view method;  // Empty: it is none.
  std::string_view path;    // Without what follows a "?".
  std::string_view accept;  // The header of that name.
};
// Of a request that is whole; refers to `received`.
HttpRequest ParseRequest(std::string_view received);

// A whole answer, after which the connection is closed. Without a body for the method HEAD.
std::string HttpAnswer(std::string_view status, std::string_view content_type,
                       std::string_view body, bool head);

}  // namespace cuspan
