#include "launcher/host/ending_signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

namespace cuspan {

Result<EndingSignals> EndingSignals::Block() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&taken, number);
  }
  sigset_t before;
  if (::sigprocmask(SIG_BLOCK, &taken, &before) != 0)
    return Status::Internal("sigprocmask: {}", std::strerror(errno));
  UniqueFd fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    const Status failure = Status::Internal("signalfd: {}", std::strerror(errno));
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return failure;
  }
  return EndingSignals(std::move(fd), before);
}

EndingSignals::~EndingSignals() {
  if (fd_.valid()) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int EndingSignals::Read() {
  signalfd_siginfo information{};
  if (::read(fd_.get(), &information, sizeof information) != sizeof information) return 0;
  return static_cast<int>(information.ssi_signo);
}

}  // namespace cuspan
