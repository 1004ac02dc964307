#include "bench/common/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/format.h"
#include "common/unique_fd.h"

namespace cuspan::bench {

Result<std::string> Capture(const std::vector<std::string>& words, bool quiet,
                            const Environment* environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  if (quiet) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  if (environment != nullptr) variables = environment->Pointers();
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(),
                                   environment != nullptr ? variables.data() : environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Status::NotFound("{}: {}", words[0], std::strerror(error));
  writing.Reset();
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t bytes = ::read(reading.get(), buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(buffer, static_cast<std::size_t>(bytes));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return Status::Internal("{} was killed by signal {}", words[0], WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return Status::Internal("{} exited with status {}", words[0], WEXITSTATUS(status));
  return text;
}

Result<std::string> OwnFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status::Internal("/proc/self/exe: {}", error.message());
  return path.parent_path().string();
}

}  // namespace cuspan::bench
