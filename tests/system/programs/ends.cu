// Uses a device, and then ends in one of these ways:
//
//   ends exit N | _exit N | quick_exit N | abort | segv | kill N | exec | thread N

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <unistd.h>

#include "use_cuda.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (!DeviceWorks()) return 3;
  const char* how = argv[1];
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  std::printf("used\n");
  std::fflush(stdout);
  // Pending work does not prevent the end.
  int* value = nullptr;
  if (cudaMalloc(&value, sizeof(int)) != cudaSuccess) return 3;
  AddSeven<<<1, 1>>>(value);

  if (std::strcmp(how, "exit") == 0) std::exit(number);
  if (std::strcmp(how, "_exit") == 0) _exit(number);
  if (std::strcmp(how, "quick_exit") == 0) std::quick_exit(number);
  if (std::strcmp(how, "abort") == 0) std::abort();
  if (std::strcmp(how, "segv") == 0) {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  }
  if (std::strcmp(how, "kill") == 0) {
    std::raise(number);
    pause();
  }
  if (std::strcmp(how, "exec") == 0) {
    // The same process becomes a new program using devices.
    execl("/proc/self/exe", argv[0], "exit", argv[2], static_cast<char*>(nullptr));
    return 4;
  }
  if (std::strcmp(how, "thread") == 0) {
    // Ends while another thread makes CUDA calls.
    std::thread([] {
      for (;;) DeviceWorks();
    }).detach();
    std::exit(number);
  }
  return 2;
}
