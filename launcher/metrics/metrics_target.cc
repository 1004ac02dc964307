#include "launcher/metrics/metrics_target.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace cuspan {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Text that starts like a number; a file would have an extension.
bool LooksLikePort(std::string_view text) {
  return !text.empty() && IsDigits(text.substr(0, 1)) && text.find('.') == std::string_view::npos;
}

Result<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0)
    return Status::Invalid("--metrics: port {} does not exist; use 1 to 65535", text);
  return port;
}

}  // namespace

Result<MetricsTarget> ParseMetricsTarget(std::string_view text) {
  MetricsTarget target;
  if (text.starts_with(kUnixPrefix)) {
    target.kind = MetricsTarget::Kind::kUnix;
    target.path = text.substr(kUnixPrefix.size());
    if (target.path.empty()) return Status::Invalid("--metrics unix: names no path");
    target.path = std::filesystem::absolute(target.path).string();
    // The id of the run is 14 characters longer than %r.
    if (target.path.size() + 14 >= sizeof sockaddr_un{}.sun_path)
      return Status::Invalid(
          "--metrics: the path of a socket has at most {} characters, not {}: {}",
          sizeof sockaddr_un{}.sun_path - 15, target.path.size(), target.path);
    return target;
  }
  const std::size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  if (IsDigits(port)) {
    CUSPAN_ASSIGN_OR_RETURN(target.port, ParsePort(port));
    std::string_view host = colon == std::string_view::npos ? "127.0.0.1" : text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    target.host = host.empty() ? "0.0.0.0" : host;
    return target;
  }
  if (LooksLikePort(port) && text.find('/') == std::string_view::npos)
    return Status::Invalid("--metrics: {} is not a port; write ./{} for a file", port, text);
  if (text.empty())
    return Status::Invalid("--metrics: give a target: [HOST:]PORT, unix:PATH, or a file");
  target.kind = MetricsTarget::Kind::kFile;
  target.path = std::filesystem::absolute(text).string();
  return target;
}

MetricsTarget ForRun(MetricsTarget target, std::string_view id) {
  for (std::size_t at = 0; (at = target.path.find("%r", at)) != std::string::npos; at += id.size())
    target.path.replace(at, 2, id);
  return target;
}

std::string TargetText(const MetricsTarget& target) {
  if (target.kind != MetricsTarget::Kind::kTcp) return target.path;
  const bool ipv6 = target.host.find(':') != std::string::npos;
  return Format("http://{}{}{}:{}/metrics", ipv6 ? "[" : "", target.host, ipv6 ? "]" : "",
                target.port);
}

}  // namespace cuspan
