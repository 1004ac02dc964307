#include "launcher/batch/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/process_fd.h"
#include "common/unique_fd.h"

namespace cuspan {
namespace {

using Clock = std::chrono::steady_clock;

// True if there is input, or the end of it, before `deadline`.
bool IsReadable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waited{fd, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// The process has ended or was killed, so this does not block.
int WaitFor(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<CommandOutput> RunForOutput(const std::vector<std::string>& words, bool with_errors,
                                   std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Status::Exhausted("{}: {}", words.front(), std::strerror(errno));
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  if (with_errors)
    posix_spawn_file_actions_adddup2(&actions, input.get(), STDERR_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT || error == EACCES)
    return Status::NotFound("{}: {}", words.front(), std::strerror(error));
  if (error != 0) return Status::Exhausted("{}: {}", words.front(), std::strerror(error));
  input.Reset();

  CommandOutput found;
  std::array<char, 4096> part{};
  while (IsReadable(output.get(), deadline)) {
    const ssize_t got = ::read(output.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // The process may continue after it closes its output.
      const UniqueFd process = OpenProcess(pid);
      if (process.valid() && !IsReadable(process.get(), deadline)) break;
      found.wait_status = WaitFor(pid);
      return found;
    }
    found.text.append(part.data(), static_cast<std::size_t>(got));
  }
  ::kill(-pid, SIGKILL);
  WaitFor(pid);
  return Status::Unavailable("no answer within {} s",
                             std::chrono::ceil<std::chrono::seconds>(limit).count());
}

}  // namespace cuspan
