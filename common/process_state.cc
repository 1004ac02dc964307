#include "common/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/format.h"

namespace cuspan {
namespace {

// /proc/PID/status has about 1,500 bytes, stat fewer.
constexpr std::size_t kMaxBytes = 4096;

// The first bytes of the process's file `name` in /proc; empty if it cannot be read.
std::string ReadFile(pid_t pid, std::string_view name) {
  constexpr std::string_view kFolder = "/proc/";
  char path[64] = {};
  char* end = path + kFolder.copy(path, kFolder.size());
  end = std::to_chars(end, path + 32, pid).ptr;
  *end++ = '/';
  name.copy(end, name.size());
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text(kMaxBytes, '\0');
  ssize_t got = 0;
  do got = ::read(file, text.data(), text.size());
  while (got < 0 && errno == EINTR);
  ::close(file);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// The process's state as a letter of proc(5); 0 if it cannot be read.
char StateOf(pid_t pid) {
  const std::string stat = ReadFile(pid, "stat");
  // The state follows the name. The name may contain anything, also ")".
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

}  // namespace

bool IsStopped(pid_t pid) {
  const char state = StateOf(pid);
  return state == 'T' || state == 't';
}

std::uint64_t PendingSignals(pid_t pid) {
  constexpr std::string_view kLine = "\nShdPnd:\t";
  const std::string status = ReadFile(pid, "status");
  const std::size_t line = status.find(kLine);
  if (line == std::string::npos) return 0;
  const std::string_view mask = std::string_view(status).substr(line + kLine.size());
  std::uint64_t pending = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), pending, 16);
  return pending;
}

bool HasLivingChild(pid_t pid) {
  std::error_code unknown;
  // If the process ends meanwhile, the iterator sets the error code. It does not throw.
  for (std::filesystem::directory_iterator thread(Format("/proc/{}/task", pid), unknown);;
       thread.increment(unknown)) {
    if (unknown) return true;
    if (thread == std::filesystem::directory_iterator()) return false;
    std::ifstream children(thread->path() / "children");  // Linux with CONFIG_PROC_CHILDREN.
    if (!children) return true;
    for (pid_t child = 0; children >> child;)
      if (const char state = StateOf(child); state != '\0' && state != 'Z' && state != 'X')
        return true;
  }
}

}  // namespace cuspan
