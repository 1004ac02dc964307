// Job control of a run. If a program stops, its launcher stops too, so that the shell with this job
// continues. docs/user-guide.md has a table of all cases.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

namespace cuspan {

// Job control for a program, a child of this process in the same process group. Threads: one. It
// has SIGCONT and the stop signals (kJobSignals) blocked and reads them from a descriptor.
class JobControl {
 public:
  // Signals used by shells and terminals to stop and continue jobs.
  static constexpr int kJobSignals[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};

  explicit JobControl(pid_t program) : program_(program) {}

  // Call after the program was stopped by `signal`. If it is still stopped, this process stops too.
  // It returns after a SIGCONT of another process, when the program continues or ends, or on
  // SIGTERM or SIGHUP. As POSIX requires, it does not stop if no process could continue it: its
  // process group is orphaned (no shell with job control), or it ignores the signal.
  void FollowStop(int signal);

  // Handles a signal of kJobSignals sent to this process. Passes it on to the program if it was
  // meant for the program and has not reached it.
  void Handle(const signalfd_siginfo& signal);
  // Continues a stopped program after an ending signal was passed on, so that it handles the
  // signal.
  void LetEnd() const;

 private:
  // Stops this process, if another process could continue it, while the watcher polls the program.
  void StopUntilContinued(int signal);

  const pid_t program_;
  pid_t watcher_ = -1;  // Last one started.
};

}  // namespace cuspan
