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

// Polling interval of the watcher, in µs: the kernel reports to a parent only that a process
// continues.
constexpr useconds_t kPollMicroseconds = 20'000;

// True if a process other than the watcher has sent SIGCONT while this process follows a stop. In
// memory shared with the watcher; allocated at the first stop.
std::atomic<bool>* g_continued = nullptr;
std::atomic<pid_t> g_watcher = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void NoteContinued(int, siginfo_t* signal, void*) {
  if (signal->si_pid != g_watcher) *g_continued = true;
}

constexpr std::uint64_t BitOf(int signal) { return std::uint64_t{1} << (signal - 1); }

// Continues the stopped launcher when it has something to do. Runs in a child of the launcher and
// ends with it.
[[noreturn]] void Watch(pid_t launcher, pid_t program, const std::atomic<bool>& continued) {
  // A new session: signals of the terminal or to the job do not reach this process.
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Readers of the launcher's pipes must not wait for this process to close them.
  ::close_range(0, UINT_MAX, 0);
  // The launcher may not have stopped yet, and a SIGCONT before it stops would be lost.
  while (::getppid() == launcher && !IsStopped(launcher)) ::usleep(kPollMicroseconds);
  // A program that has ended is no longer stopped: its pid remains valid until the launcher's
  // waitpid.
  while (::getppid() == launcher && IsStopped(program) && !continued &&
         (PendingSignals(launcher) & (BitOf(SIGTERM) | BitOf(SIGHUP))) == 0)
    ::usleep(kPollMicroseconds);
  if (::getppid() == launcher) ::kill(launcher, SIGCONT);
  // The launcher kills this process after comparing its pid with the signal's sender.
  for (;;) ::pause();
}

// Raises a signal and unblocks it for a moment; returns when its effect is over. The kernel ignores
// a stop signal if no process could continue this one.
void RaiseUnblocked(int signal) {
  sigset_t only;
  sigset_t before;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::raise(signal);  // Still blocked.
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
  // SIGSTOP would stop this process even if no process could continue it.
  if (!*g_continued) RaiseUnblocked(signal == SIGSTOP ? SIGTSTP : signal);
  // From now on, SIGCONT is read from the descriptor.
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
  // Checked, since a second SIGCONT would run the program's handler twice. Sent at once: the
  // program may be stopped again later.
  if (*g_continued && IsStopped(program_)) ::kill(program_, SIGCONT);
  ::kill(watcher_, SIGKILL);
  while (::waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void JobControl::Handle(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  const auto sender = static_cast<pid_t>(signal.ssi_pid);
  if (number != SIGCONT) {
    // A terminal stops the whole job, and a program may stop its own group.
    if (signal.ssi_code != SI_KERNEL && sender != program_) ::kill(program_, number);
    return;
  }
  // A second SIGCONT would run the program's handler twice.
  if (sender != watcher_ && IsStopped(program_)) ::kill(program_, SIGCONT);
}

void JobControl::LetEnd() const {
  if (IsStopped(program_)) ::kill(program_, SIGCONT);
}

}  // namespace cuspan
