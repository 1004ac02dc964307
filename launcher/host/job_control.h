// Job control of a run. A program that stops is followed by its launcher, so that the shell whose
// job both are takes over; the table in docs/user-guide.md says who stops, goes on and ends when.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

namespace cuspan {

// Of a program, a child of this process in the same process group. One thread, which has SIGCONT
// and the signals that stop (kJobSignals) blocked and reads them from a descriptor.
class JobControl {
 public:
  // The signals by which shells and terminals stop jobs and let them go on.
  static constexpr int kJobSignals[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};

  explicit JobControl(pid_t program) : program_(program) {}

  // The program was stopped by `signal`. If it still is, this process stops, too, and returns when
  // it goes on: by a SIGCONT of somebody, when the program goes on or ends, or to end by a SIGTERM
  // or SIGHUP. It does not stop where nobody could let it go on, as POSIX has it: where its process
  // group is orphaned (no shell with job control around it), or where it ignores the signal.
  void FollowStop(int signal);

  // Takes a signal of kJobSignals that was sent to this process, and passes it on to the program
  // where that was meant and has not had it.
  void Take(const signalfd_siginfo& signal);
  // A signal that ends was passed on: a program that is stopped goes on, to take it.
  void LetEnd() const;

 private:
  // Stops this process, if somebody could let it go on, while the watcher looks at the program.
  void StopUntilContinued(int signal);

  const pid_t program_;
  pid_t watcher_ = -1;  // The last one.
};

}  // namespace cuspan
