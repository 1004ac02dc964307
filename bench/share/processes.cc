#include "bench/share/processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace cuspan::bench::share {
namespace {

// Entries of an environment are terminated by a zero byte.
bool Has(const std::string& environment, const std::string& entry) {
  const std::string_view text = environment;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    if (text.substr(at, end - at) == entry) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<Process> ProcessesWith(const std::string& entry) {
  std::vector<Process> found;
  std::error_code ignored;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(folder.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(folder.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (!Has(environment, entry)) continue;
    Process process;
    process.pid = pid;
    std::ifstream name(folder.path() / "comm");
    if (std::getline(name, process.name)) found.push_back(std::move(process));
  }
  return found;
}

}  // namespace cuspan::bench::share
