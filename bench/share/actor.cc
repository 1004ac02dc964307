#include "bench/share/actor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/format.h"

namespace cuspan::bench::share {

Result<std::unique_ptr<Actor>> Actor::Start(const std::vector<std::string>& words,
                                            const Environment& environment) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0) return Status::Exhausted("a pipe: {}", std::strerror(errno));
  UniqueFd in_read(in[0]), in_write(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) return Status::Exhausted("a pipe: {}", std::strerror(errno));
  UniqueFd out_read(out[0]), out_write(out[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, words.front().c_str(), &actions, nullptr, arguments.data(),
                                  environment.Pointers().data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return Status::Unavailable("cannot start {}: {}", words.front(), std::strerror(error));
  return std::unique_ptr<Actor>(
      new Actor(words.back(), pid, std::move(in_write), std::move(out_read)));
}

Actor::~Actor() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

std::string Actor::Stop() {
  if (pid_ == 0) return ReadAll();
  ::kill(pid_, SIGTERM);
  std::string text = ReadAll();
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  return text;
}

std::string Actor::ReadSoFar() const {
  std::string text;
  char buffer[4096];
  pollfd one{out_.get(), POLLIN, 0};
  while (::poll(&one, 1, 0) == 1) {
    const ssize_t got = ::read(out_.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

bool Actor::HasEnded() {
  if (pid_ != 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ == 0;
}

std::string Actor::ReadAll() const {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(out_.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

Status Actor::Ended() {
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::Ok();
  return Status::Internal("a measuring program ended with {} {}",
                          WIFEXITED(status) ? "exit status" : "signal",
                          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

Status Actor::AwaitReady() {
  std::string line;
  char byte = 0;
  pollfd one{out_.get(), POLLIN, 0};
  for (;;) {
    const int some = ::poll(&one, 1, static_cast<int>(kLongestStart.count()));
    if (some == 0)
      return Status::Unavailable(
          "a measuring program does not start: it has waited for a GPU for {} s",
          kLongestStart.count() / 1000);
    if (some < 0 || ::read(out_.get(), &byte, 1) != 1 || byte == '\n') break;
    line += byte;
  }
  if (line == "ready") return Status::Ok();
  const Status ended = Ended();
  return ended.ok() ? Status::Internal("a measuring program printed '{}'", line) : ended;
}

Status Actor::Go() {
  if (::write(in_.get(), "go\n", 3) == 3) return Status::Ok();
  return Status::Internal("a measuring program does not read its input: {}", std::strerror(errno));
}

Result<std::string> Actor::AwaitEnd() {
  std::string text = ReadAll();
  CUSPAN_RETURN_IF_ERROR(Ended());
  return text;
}

}  // namespace cuspan::bench::share
