// The user's program as a child of this process, started like from a shell.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/host/environment.h"

namespace cuspan {

// Exit statuses for failures of cuspan; shells, env and timeout use the same.
inline constexpr int kExitUsage = 2;  // No command of cuspan was named.
inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// The signal mask and dispositions inherited by this process, to be passed on to the program.
class InheritedSignals {
 public:
  // Call it first in main. It also resets SIGCHLD, so that this process receives its children's
  // statuses.
  static InheritedSignals Save();
  // Async-signal-safe.
  void Restore() const;

 private:
  static constexpr int kCount = 65;  // Linux numbers signals from 1 to 64.
  sigset_t mask_{};
  std::array<bool, kCount> ignored_{};
};

// Exit status for a failure to start a program.
int ExitStatusOf(const Status& failure);

class ProgramProcess {
 public:
  // Forks. The child blocks until Start; if this process ends before that, it ends silently.
  static Result<ProgramProcess> Prepare(const std::vector<std::string>& command,
                                        const Environment& environment,
                                        const InheritedSignals& signals);
  // Makes the child execute the program; returns the reason if it fails.
  Status Start();
  pid_t pid() const { return pid_; }

 private:
  ProgramProcess(pid_t pid, std::string name, std::string path, UniqueFd go, UniqueFd outcome)
      : pid_(pid),
        name_(std::move(name)),
        path_(std::move(path)),
        go_(std::move(go)),
        outcome_(std::move(outcome)) {}

  pid_t pid_;
  std::string name_;  // Name given by the user.
  std::string path_;  // Path of the file; empty if not found.
  UniqueFd go_;       // A byte starts the child.
  UniqueFd outcome_;  // Errno of the child's exec; closed if it succeeds.
};

// Ends this process in the way given by `wait_status` (from waitpid): with the same exit status, or
// by the same signal but without a core file.
[[noreturn]] void EndLike(int wait_status);

}  // namespace cuspan
