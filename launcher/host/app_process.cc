#include "launcher/host/app_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/find_command.h"
#include "launcher/host/program_check.h"

namespace cuspan {

InheritedSignals InheritedSignals::Save() {
  InheritedSignals inherited;
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.mask_);
  for (int number = 1; number < kCount; ++number) {
    struct sigaction action {};
    inherited.ignored_[static_cast<std::size_t>(number)] =
        ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }
  // If SIGCHLD were ignored, as possibly inherited, this process would not receive its children's
  // statuses.
  ::signal(SIGCHLD, SIG_DFL);
  return inherited;
}

void InheritedSignals::Restore() const {
  for (int number = 1; number < kCount; ++number) {
    struct sigaction action {};
    action.sa_handler = ignored_[static_cast<std::size_t>(number)] ? SIG_IGN : SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

int ExitStatusOf(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kNotFound:
      return kExitNotFound;
    case StatusCode::kRefused:
    case StatusCode::kUnsupported:
      return kExitNotExecutable;
    default:
      return kExitOwnFailure;
  }
}

Result<ProgramProcess> ProgramProcess::Prepare(const std::vector<std::string>& command,
                                               const Environment& environment,
                                               const InheritedSignals& signals) {
  int go[2];
  int outcome[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd go_read(go[0]);
  UniqueFd go_write(go[1]);
  if (::pipe2(outcome, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd outcome_read(outcome[0]);
  UniqueFd outcome_write(outcome[1]);

  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = environment.Pointers();
  const Result<std::string> found =
      FindCommand(command.front(), environment.Get("PATH").value_or("/usr/bin:/bin"));
  const std::string path = found.ok() ? *found : "";
  // A script without an interpreter in its first line is run by the shell, as by execvp.
  std::vector<char*> shell = {const_cast<char*>("/bin/sh"), const_cast<char*>(path.c_str())};
  shell.insert(shell.end(), arguments.begin() + 1, arguments.end());
  const bool binary = IsBinary(path);

  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid == 0) {
    // This end would keep the pipe open, and the read below would block forever.
    ::close(go_write.get());
    char byte = 0;
    ssize_t got = 0;
    do {
      got = ::read(go_read.get(), &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) ::_exit(kExitOwnFailure);
    signals.Restore();
    ::execve(path.c_str(), arguments.data(), variables.data());
    if (errno == ENOEXEC && !binary) ::execve(shell[0], shell.data(), variables.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(outcome_write.get(), &error, sizeof error);
    ::_exit(error == ENOENT ? kExitNotFound : kExitNotExecutable);
  }
  return ProgramProcess(pid, command.front(), path, std::move(go_write), std::move(outcome_read));
}

Status ProgramProcess::Start() {
  const char byte = 1;
  if (::write(go_.get(), &byte, 1) != 1)
    return Status::Internal("starting {}: {}", name_, std::strerror(errno));
  go_.Reset();
  // Blocks until the child executes the program, fails to, or is killed.
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(outcome_.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  outcome_.Reset();
  if (got == sizeof error) return ExplainStart(name_, path_, error);
  return Status::Ok();
}

void EndLike(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(number, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
    ::kill(::getpid(), number);
    ::_exit(128 + number);
  }
  std::exit(WEXITSTATUS(wait_status));
}

}  // namespace cuspan
