#include "proxy/sharing/mps_control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/unique_fd.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Maximum bytes read. An answer is the last line of the output.
constexpr std::size_t kMaxAnswer = 64 << 10;

std::vector<char*> ArrayOf(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn, because fork would copy this process's memory: a process using a GPU has gigabytes
// of pinned memory.
Result<pid_t> StartProgram(const MpsControl& control, int input, int output) {
  posix_spawn_file_actions_t descriptors;
  ::posix_spawn_file_actions_init(&descriptors);
  ::posix_spawn_file_actions_adddup2(&descriptors, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&descriptors, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&descriptors, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&descriptors, STDERR_FILENO + 1);
  posix_spawnattr_t signals;
  ::posix_spawnattr_init(&signals);
  sigset_t set;
  sigfillset(&set);
  ::posix_spawnattr_setsigdefault(&signals, &set);
  sigemptyset(&set);
  ::posix_spawnattr_setsigmask(&signals, &set);
  ::posix_spawnattr_setflags(&signals, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const std::vector<std::string> words = {control.program()};
  const int error = ::posix_spawn(&pid, control.program().c_str(), &descriptors, &signals,
                                  ArrayOf(words).data(), ArrayOf(control.environment()).data());
  ::posix_spawnattr_destroy(&signals);
  ::posix_spawn_file_actions_destroy(&descriptors);
  if (error != 0)
    return Status::Unavailable("cannot start {}: {}", control.program(), std::strerror(error));
  return pid;
}

}  // namespace

MpsControl::MpsControl(std::string program, const PairFolder& folder, const std::string& gpu)
    : program_(std::move(program)) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // The daemon would apply other such variables to all runs by default.
    const std::string_view text = *entry;
    if (!text.starts_with("CUDA_MPS_") && !text.starts_with("CUDA_VISIBLE_DEVICES="))
      environment_.emplace_back(text);
  }
  environment_.push_back("CUDA_MPS_PIPE_DIRECTORY=" + folder.pipe());
  environment_.push_back("CUDA_MPS_LOG_DIRECTORY=" + folder.log());
  environment_.push_back("CUDA_VISIBLE_DEVICES=" + gpu);
}

Result<std::string> MpsControl::Ask(const std::string& command, milliseconds limit) const {
  const auto deadline = steady_clock::now() + limit;
  int question[2], answer[2];
  if (::pipe2(question, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  const UniqueFd question_end(question[0]);
  UniqueFd ask_end(question[1]);
  if (::pipe2(answer, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  const UniqueFd read_end(answer[0]);
  UniqueFd answer_end(answer[1]);
  const std::string line = command + "\n";
  // Does not block: the line is smaller than any pipe buffer.
  if (::write(ask_end.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return Status::Unavailable("cannot write the command for {}: {}", program_,
                               std::strerror(errno));
  ask_end.Reset();
  CUSPAN_ASSIGN_OR_RETURN(const pid_t pid,
                          StartProgram(*this, question_end.get(), answer_end.get()));
  answer_end.Reset();
  std::string said;
  bool ended = false;
  while (!ended && said.size() < kMaxAnswer) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd waited{read_end.get(), POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&waited, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char text[512];
    const ssize_t got = ::read(read_end.get(), text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    ended = got <= 0;
    if (got > 0) said.append(text, static_cast<std::size_t>(got));
  }
  // The program ends after its answer.
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return Status::Unavailable("{} has not answered \"{}\" within {} ms", program_, command,
                               limit.count());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Status::Unavailable("{} failed for \"{}\"", program_, command);
  return said;
}

}  // namespace cuspan::proxy
