#include "launcher/host/end_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "common/process_fd.h"
#include "common/unique_fd.h"

namespace cuspan {
namespace {

constexpr std::chrono::seconds kEndLimit{2};

bool HasVariable(pid_t pid, const std::string& entry) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string one; std::getline(file, one, '\0');)
    if (one == entry) return true;
  return false;
}

std::vector<UniqueFd> Find(const std::string& entry) {
  std::vector<UniqueFd> found;
  std::error_code ignored;
  for (auto process = std::filesystem::directory_iterator("/proc", ignored);
       !ignored && process != std::filesystem::directory_iterator(); process.increment(ignored)) {
    const std::string name = process->path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid == ::getpid()) continue;
    // Opened before the check: a pidfd is not affected by reuse of the pid.
    UniqueFd process_fd = OpenProcess(pid);
    if (process_fd.valid() && HasVariable(pid, entry)) found.push_back(std::move(process_fd));
  }
  return found;
}

}  // namespace

void EndProcessesWith(std::string_view variable, std::string_view value) {
  if (value.empty()) return;
  const std::string entry = std::string(variable) + "=" + std::string(value);
  const auto deadline = std::chrono::steady_clock::now() + kEndLimit;
  // A process found may have started another meanwhile.
  for (;;) {
    const std::vector<UniqueFd> found = Find(entry);
    if (found.empty() || std::chrono::steady_clock::now() >= deadline) return;
    for (const UniqueFd& process : found)
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    for (const UniqueFd& process : found) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd waited{process.get(), POLLIN, 0};
      ::poll(&waited, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    }
  }
}

}  // namespace cuspan
