#include "launcher/agent/ucx/ucx_transports.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "common/format.h"

namespace cuspan {
namespace {

constexpr const char* kVariable = "UCX_TLS";
constexpr std::string_view kSegments = "sysv";

std::vector<std::string> Items(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    items.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

bool Names(const std::vector<std::string>& items, std::string_view name) {
  return std::find(items.begin(), items.end(), name) != items.end();
}

}  // namespace

std::string UcxTransports(std::optional<std::string_view> chosen) {
  const std::string_view text = chosen.value_or("all");
  const bool excludes = text.starts_with('^');
  std::vector<std::string> items = Items(excludes ? text.substr(1) : text);
  if (Names(items, kSegments)) return std::string(text);
  if (excludes) return Format("{},{}", text, kSegments);
  if (Names(items, "all")) return Format("^{}", kSegments);
  // UCX's names for groups of transports (ucp_context.c). Each includes sysv.
  std::string list;
  for (const std::string& item : items) {
    const bool shared = item == "sm" || item == "shm" || item == "mm";
    list += (list.empty() ? "" : ",") + (shared ? item == "mm" ? "posix" : "posix,cma" : item);
  }
  return list;
}

void ExcludeSharedSegments() {
  const char* const chosen = std::getenv(kVariable);
  ::setenv(kVariable,
           UcxTransports(chosen ? std::optional<std::string_view>(chosen) : std::nullopt).c_str(),
           1);
}

}  // namespace cuspan
