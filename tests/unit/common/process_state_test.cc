#include "common/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace cuspan {
namespace {

// A child waiting for signals. The destructor kills and reaps it at the latest.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Child() {
    if (pid_ > 0) Take();
  }
  Child(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Sends the signal. Returns once waitid(2) with `options` reports its effect.
  void Send(int number, int options) const {
    ::kill(pid_, number);
    siginfo_t information{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &information, options | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
  }
  void Take() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// Above the largest possible process id.
constexpr pid_t kNobody = 0x7ffffff0;

TEST(ProcessState, IsStoppedUntilItGoesOn) {
  const Child child;
  EXPECT_FALSE(IsStopped(child.pid()));
  child.Send(SIGSTOP, WSTOPPED);
  EXPECT_TRUE(IsStopped(child.pid()));
  child.Send(SIGCONT, WCONTINUED);
  EXPECT_FALSE(IsStopped(child.pid()));
  EXPECT_FALSE(IsStopped(kNobody));
}

TEST(ProcessState, SignalsOfAStoppedProcessArePending) {
  const Child child;
  child.Send(SIGSTOP, WSTOPPED);
  EXPECT_EQ(PendingSignals(child.pid()), 0U);
  ::kill(child.pid(), SIGTERM);
  EXPECT_EQ(PendingSignals(child.pid()), std::uint64_t{1} << (SIGTERM - 1));
  EXPECT_EQ(PendingSignals(kNobody), 0U);
}

TEST(ProcessState, AChildThatHasEndedIsNotLiving) {
  Child child;
  EXPECT_FALSE(HasLivingChild(child.pid()));
  EXPECT_TRUE(HasLivingChild(::getpid()));
  child.Send(SIGKILL, WEXITED);
  EXPECT_FALSE(HasLivingChild(::getpid())) << "a zombie";
  child.Take();
  EXPECT_FALSE(HasLivingChild(::getpid()));
  EXPECT_TRUE(HasLivingChild(kNobody)) << "cannot be asked about";
}

}  // namespace
}  // namespace cuspan
