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

// The number behind `name` in a file of lines "name number …".
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
  return std::nullopt;  // "max", or no such file.
}

// Of the group at `folder`: its caches of files can be given up.
std::uint64_t LeftIn(const fs::path& folder) {
  const auto most = NumberIn(folder / "memory.max");
  const auto used = NumberIn(folder / "memory.current");
  if (!most || !used) return kUnknown;
  const std::uint64_t caches = NumberOf(folder / "memory.stat", "inactive_file ").value_or(0);
  const std::uint64_t kept = *used - std::min(*used, caches);
  return *most - std::min(*most, kept);
}

}  // namespace

std::uint64_t AvailableMemory(const fs::path& root) {
  std::uint64_t available = kUnknown;
  if (const auto kilobytes = NumberOf(root / "proc/meminfo", "MemAvailable:"))
    available = *kilobytes * 1024;
  // "0::/path" is the group of version 2.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.compare(0, 4, "0::/") != 0) continue;
    const fs::path top = root / "sys/fs/cgroup";
    for (fs::path own = line.substr(4);; own = own.parent_path()) {
      available = std::min(available, LeftIn(own.empty() ? top : top / own));
      if (own.empty()) break;
    }
  }
  return available;
}

}  // namespace cuspan
