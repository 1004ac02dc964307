// An interactive program: reports whether it is at a terminal, and answers each line with its
// number plus 7, computed by a device. Ctrl-C ends it, or, with "catch", is counted.
//
//   terminal [catch]

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <unistd.h>

#include "use_cuda.h"

namespace {

volatile std::sig_atomic_t interrupts = 0;

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "catch") == 0) {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupts = interrupts + 1; };
    sigaction(SIGINT, &action, nullptr);
    // SIGINT is blocked except in ppoll: one between a check and the wait would be missed.
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, nullptr);
  }
  std::printf("terminals: %d %d %d\n", isatty(0), isatty(1), isatty(2));
  std::printf("foreground: %d\n", tcgetpgrp(0) == getpgrp() ? 1 : 0);
  std::printf("device: %s\n", DeviceWorks() ? "PASS" : "FAIL");
  std::printf("ready\n");
  std::fflush(stdout);
  char line[256];
  for (;;) {
    sigset_t none;
    sigemptyset(&none);
    pollfd input{0, POLLIN, 0};
    if (ppoll(&input, 1, nullptr, &none) < 0 && errno == EINTR) {
      std::printf("interrupted %d, device: %s\n", static_cast<int>(interrupts),
                  DeviceWorks() ? "PASS" : "FAIL");
      std::fflush(stdout);
      continue;
    }
    const ssize_t length = read(0, line, sizeof line - 1);
    if (length <= 0) break;
    line[length] = '\0';
    int result = 0;
    const cudaError_t error = AddSevenOnDevice(std::atoi(line), &result);
    std::printf("answer %d %s\n", result, cudaGetErrorName(error));
    std::fflush(stdout);
  }
  std::printf("end of input\n");
  return 0;
}
