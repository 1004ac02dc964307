#include "launcher/host/job_control.h"

#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "common/log.h"
#include "common/process_state.h"

namespace cuspan {
namespace {

// How often a watcher looks at the program: the kernel tells only a parent that a process goes on.
constexpr useconds_t kPollMicroseconds = 20'000;

// A SIGCONT while this process follows a stop: whether somebody but the watcher has sent one. The
// watcher has the flag, too. Made at the first stop.
std::atomic<bool>* g_continued = nullptr;
std::atomic<pid_t> g_watcher = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void NoteContinued(int, siginfo_t* signal, void*) {
  if (signal->si_pid != g_watcher) *g_continued = true;
}

constexpr std::uint64_t BitOf(int signal) { return std::uint64_t{1} << (signal - 1); }

// Lets the launcher, which is stopped and notices nothing, go on when there is something for it. A
// child of the launcher, which ends with it.
[[noreturn]] void Watch(pid_t launcher, pid_t program, const std::atomic<bool>& continued) {
  // A process group of its own: a terminal's signals, and those to the job, are not for it.
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Who waits for the end of a pipe of the launcher's waits for the launcher alone.
  ::close_range(0, UINT_MAX, 0);
  // The launcher may not have stopped yet, and a SIGCONT before it does would be lost.
  while (::getppid() == launcher && !IsStopped(launcher)) ::usleep(kPollMicroseconds);
  // A program that has ended is no longer stopped: its number stays until the launcher takes it.
  while (::getppid() == launcher && IsStopped(program) && !continued &&
         (PendingSignals(launcher) & (BitOf(SIGTERM) | BitOf(SIGHUP))) == 0)
    ::usleep(kPollMicroseconds);
  if (::getppid() == launcher) ::kill(launcher, SIGCONT);
  // Killed by the launcher, which then knows by its number who sent the signal.
  for (;;) ::pause();
}

// Does what the signal does to a process that neither blocks nor handles it; returns when it is
// over. Nothing where the kernel finds that nobody could let this process go on.
void RaiseUnblocked(int signal) {
  sigset_t only;
  sigset_t before;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::raise(signal);  // Blocked, so far.
  ::pthread_sigmask(SIG_UNBLOCK, &only, &before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void JobControl::FollowStop(int signal) {
  if (!IsStopped(program_)) return;
  if (g_continued == nullptr) {
    void* const shared = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
      LogWarn("cuspan does not stop with its program: mmap: {}", std::strerror(errno));
      return;
    }
    g_continued = new (shared) std::atomic<bool>(false);
  }
  *g_continued = false;
  const pid_t launcher = ::getpid();
  watcher_ = ::fork();
  if (watcher_ == 0) Watch(launcher, program_, *g_continued);
  if (watcher_ < 0) {
    LogWarn("cuspan does not stop with its program, since it cannot start a process: fork: {}",
            std::strerror(errno));
    return;
  }
  StopUntilContinued(signal);
}

void JobControl::StopUntilContinued(int signal) {
  g_watcher = watcher_;
  // A stop signal discards a pending SIGCONT (signal(7)). With a handler, a SIGCONT just before the
  // stop is not lost. The handler stays: the default action would discard a pending SIGCONT, too.
  struct sigaction note {};
  note.sa_sigaction = NoteContinued;
  note.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGCONT, &note, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGCONT);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  // SIGSTOP would stop also where nobody lets it go on.
  if (!*g_continued) RaiseUnblocked(signal == SIGSTOP ? SIGTSTP : signal);
  // From now on one is taken from the descriptor.
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
  // A second one would run the program's handler twice. At once: it may be stopped anew.
  if (*g_continued && IsStopped(program_)) ::kill(program_, SIGCONT);
  ::kill(watcher_, SIGKILL);
  while (::waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void JobControl::Take(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  const auto sender = static_cast<pid_t>(signal.ssi_pid);
  if (number != SIGCONT) {
    // A terminal stops the whole job, and a program may stop its group itself.
    if (signal.ssi_code != SI_KERNEL && sender != program_) ::kill(program_, number);
    return;
  }
  // A second one would run the program's handler twice.
  if (sender != watcher_ && IsStopped(program_)) ::kill(program_, SIGCONT);
}

void JobControl::LetEnd() const {
  if (IsStopped(program_)) ::kill(program_, SIGCONT);
}

}  // namespace cuspan
