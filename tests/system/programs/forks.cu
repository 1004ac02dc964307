// Forks children using devices, before and after it does so itself, and waits for all its children.
// It must see only the children it forked.
//
//   forks [CHILDREN]

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <sys/wait.h>
#include <unistd.h>

#include "use_cuda.h"

namespace {

// Exit status of a child forked before its parent used CUDA: it has devices of its own.
int Early(int number) { return DeviceWorks(number) ? 10 + number : 1; }

// Exit status of a child forked after its parent used CUDA: it cannot use CUDA (CUDA C++
// Programming Guide).
int Late(int) {
  int count = 0;
  int result = 0;
  cudaGetDeviceCount(&count);
  return AddSevenOnDevice(1, &result) == cudaErrorInitializationError ? 99 : 1;
}

// Forks, and counts the children by exit status.
std::map<int, int> ForkAndWait(int children, int (*work)(int)) {
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(work(i));
    if (child < 0) std::perror("fork");
  }
  std::map<int, int> statuses;
  int status = 0;
  while (wait(&status) > 0)
    ++statuses[WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)];
  if (errno != ECHILD) std::perror("wait");
  return statuses;
}

}  // namespace

int main(int argc, char** argv) {
  const int children = argc > 1 ? std::atoi(argv[1]) : 4;
  int failures = 0;
  // Asking for the version does not initialise CUDA.
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    std::fprintf(stderr, "forks: no version of the driver\n");
    ++failures;
  }
  std::map<int, int> expected;
  for (int i = 0; i < children; ++i) expected[10 + i] = 1;
  if (ForkAndWait(children, Early) != expected) {
    std::fprintf(stderr,
                 "forks: the early children did not all do their work, or were not alone\n");
    ++failures;
  }
  if (!DeviceWorks()) {
    std::fprintf(stderr, "forks: the parent's device does not work\n");
    ++failures;
  }
  expected = {{99, children}};
  if (ForkAndWait(children, Late) != expected) {
    std::fprintf(stderr, "forks: the late children did not all get cudaErrorInitializationError\n");
    ++failures;
  }
  if (!DeviceWorks()) {
    std::fprintf(stderr, "forks: the parent's device does not work after its children\n");
    ++failures;
  }
  std::printf("forks: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
