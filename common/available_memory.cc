#include "common/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace cuspan {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

// The number after `name` in a file of lines "name number …".
std::optional<std::uint64_t> NumberOf(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    std::istringstream rest(line.substr(name.size()));
    if (rest >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> NumberIn(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // "max", or the file is missing.
}

// File names and keys of one version of the memory controller.
struct Names {
  const char* most;
  const char* used;
  const char* caches;  // Page cache in memory.stat, reclaimable.
};
constexpr Names kOfVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file "};
constexpr Names kOfVersion2{"memory.max", "memory.current", "inactive_file "};

// Bytes left in the cgroup at `folder`.
std::uint64_t LeftIn(const fs::path& folder, const Names& names) {
  const auto most = NumberIn(folder / names.most);
  const auto used = NumberIn(folder / names.used);
  if (!most || !used) return kUnknown;
  const std::uint64_t caches = NumberOf(folder / "memory.stat", names.caches).value_or(0);
  const std::uint64_t kept = *used - std::min(*used, caches);
  return *most - std::min(*most, kept);
}

// Bytes left in the cgroup of that path and all its ancestors: the minimum.
std::uint64_t LeftInAll(const fs::path& top, const fs::path& group, const Names& names) {
  std::uint64_t left = kUnknown;
  for (fs::path own = group;; own = own.parent_path()) {
    left = std::min(left, LeftIn(own.empty() ? top : top / own, names));
    if (own.empty()) return left;
  }
}

}  // namespace

std::uint64_t AvailableMemory(const fs::path& root) {
  std::uint64_t available = kUnknown;
  if (const auto kilobytes = NumberOf(root / "proc/meminfo", "MemAvailable:"))
    available = *kilobytes * 1024;
  // "0::/path" is the cgroup of version 2, "4:memory:/path" one of version 1.
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path top = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    const std::string kind = line.substr(0, path);
    const std::string group = line.substr(path + 2);
    if (kind == "0:") available = std::min(available, LeftInAll(top, group, kOfVersion2));
    if (kind.ends_with(":memory"))
      available = std::min(available, LeftInAll(top / "memory", group, kOfVersion1));
  }
  return available;
}

}  // namespace cuspan
