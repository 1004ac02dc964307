#include "launcher/metrics/http_request.h"

#include <algorithm>
#include <cctype>

#include "common/format.h"

namespace cuspan {
namespace {

constexpr std::string_view kEndOfHeaders = "\r\n\r\n";

// Removes the text up to `mark` and the mark, and returns the text; without a mark, everything.
std::string_view ConsumeUntil(std::string_view& rest, std::string_view mark) {
  const std::size_t at = std::min(rest.find(mark), rest.size());
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(std::min(at + mark.size(), rest.size()));
  return taken;
}

bool IsSameName(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  });
}

}  // namespace

bool IsWhole(std::string_view received) {
  return received.find(kEndOfHeaders) != std::string_view::npos;
}

HttpRequest ParseRequest(std::string_view received) {
  HttpRequest request;
  std::string_view line = ConsumeUntil(received, "\r\n");
  const std::string_view method = ConsumeUntil(line, " ");
  std::string_view target = ConsumeUntil(line, " ");
  if (!line.starts_with("HTTP/1.") || !target.starts_with('/')) return request;
  request.method = method;
  request.path = ConsumeUntil(target, "?");
  while (!received.empty()) {
    std::string_view header = ConsumeUntil(received, "\r\n");
    if (header.empty()) break;
    if (IsSameName(ConsumeUntil(header, ":"), "accept")) request.accept = header;
  }
  return request;
}

std::string HttpAnswer(std::string_view status, std::string_view content_type,
                       std::string_view body, bool head) {
  return Format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, content_type, body.size(), head ? std::string_view() : body);
}

}  // namespace cuspan
