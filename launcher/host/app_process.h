// The user's program as our child: started as its shell would have started it.
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

// Exit statuses of our own, as shells, env and timeout use them.
inline constexpr int kExitUsage = 2;  // No command of cuspan was named.
inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// The signal mask and dispositions that this process was started with, so that
// the app starts with the same.
class InheritedSignals {
 public:
  // To be called first of all in main. From then on this process learns how its children end.
  static InheritedSignals Take();
  // Async-signal-safe.
  void Restore() const;

 private:
  static constexpr int kCount = 65;  // Linux counts from 1 to 64.
  sigset_t mask_{};
  std::array<bool, kCount> ignored_{};
};

// The exit status for a failure to start a program.
int ExitStatusOf(const Status& failure);

class AppProcess {
 public:
  // Forks. The child waits for Start; when that never comes, it ends silently.
  static Result<AppProcess> Prepare(const std::vector<std::string>& command,
                                    const Environment& environment,
                                    const InheritedSignals& signals);
  // Lets the child become the program; a failure says why it could not.
  Status Start();
  pid_t pid() const { return pid_; }

 private:
  AppProcess(pid_t pid, std::string name, std::string path, UniqueFd go, UniqueFd outcome)
      : pid_(pid),
        name_(std::move(name)),
        path_(std::move(path)),
        go_(std::move(go)),
        outcome_(std::move(outcome)) {}

  pid_t pid_;
  std::string name_;  // As the user has it.
  std::string path_;  // Of the file; empty if there is none.
  UniqueFd go_;       // A byte lets the child go.
  UniqueFd outcome_;  // The child's errno when exec fails; closed when it succeeds.
};

// Ends this process as `wait_status` (of waitpid) says the app ended: with the
// same exit status, or by the same signal and without a core file of our own.
[[noreturn]] void EndLike(int wait_status);

}  // namespace cuspan
