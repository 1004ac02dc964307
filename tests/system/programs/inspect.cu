// Prints the state of a process visible to itself: its variables, open descriptors, signal handling
// and children. "cuda": prints it after a use of a device. "count": prints only the number of
// devices.
//
//   inspect [cuda | count]

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "use_cuda.h"

namespace {

void WriteDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    int number = -1;
    if (std::sscanf(entry->d_name, "%d", &number) != 1 || number == dirfd(folder)) continue;
    std::printf("descriptor %d\n", number);
  }
  closedir(folder);
}

// Prints the masks of ignored, caught and blocked signals.
void WriteSignals() {
  FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    for (const char* name : {"SigIgn:", "SigCgt:", "SigBlk:"}) {
      if (std::strncmp(line, name, std::strlen(name)) == 0) std::printf("signals %s", line);
    }
  }
  std::fclose(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "count") == 0) {
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess)
      std::fprintf(stderr, "%s\n", cudaGetErrorName(error));
    std::printf("%d\n", devices);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "cuda") == 0 && !DeviceWorks()) return 1;
  for (char** variable = environ; *variable != nullptr; ++variable)
    std::printf("variable %s\n", *variable);
  WriteDescriptors();
  WriteSignals();
  std::printf("children %s\n",
              waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD ? "none" : "some");
  std::printf("group %d\n", getpgrp() == getpgid(getppid()) ? 1 : 0);
  std::printf("session %d\n", getsid(0) == getsid(getppid()) ? 1 : 0);
  return 0;
}
