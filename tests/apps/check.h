// Common code of this folder's programs: checks of CUDA calls and of command lines.
#pragma once

#include <cuda_runtime.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

// Ends the program with a message if a CUDA call fails.
#define CHECK(call)                                                                 \
  do {                                                                              \
    const cudaError_t check_error = (call);                                         \
    if (check_error != cudaSuccess) {                                               \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call,       \
                   cudaGetErrorName(check_error), cudaGetErrorString(check_error)); \
      std::exit(EXIT_FAILURE);                                                      \
    }                                                                               \
  } while (false)

// Ends the program if the last launch was refused.
#define CHECK_LAUNCH() CHECK(cudaGetLastError())

// Counts a wrong result in the int `failures` and continues. The arguments are those of printf.
#define EXPECT(condition, ...)                                                      \
  do {                                                                              \
    if (!(condition)) {                                                             \
      ++failures;                                                                   \
      std::fprintf(stderr, "%s:%d: expected %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                            \
      std::fputc('\n', stderr);                                                     \
    }                                                                               \
  } while (false)

// Returns argument number `index` as a number from `low` to `high`, or `fallback` if not given.
inline long NumberArgument(int argc, char** argv, int index, long fallback, long low, long high) {
  if (index >= argc) return fallback;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(argv[index], &end, 10);
  if (errno != 0 || end == argv[index] || *end != '\0' || value < low || value > high) {
    std::fprintf(stderr, "%s: argument %d is '%s'; it must be a number from %ld to %ld\n", argv[0],
                 index, argv[index], low, high);
    std::exit(2);
  }
  return value;
}

// Returns the number of devices. Ends the program if it is 0.
inline int DeviceCount() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  if (count < 1) {
    std::fprintf(stderr, "no CUDA device\n");
    std::exit(EXIT_FAILURE);
  }
  return count;
}

// Returns the second word of "1 device", "2 devices".
inline const char* Devices(int count) { return count == 1 ? "device" : "devices"; }

// Return the last word of each program's line, and its exit status.
inline const char* Verdict(long failures) { return failures == 0 ? "PASS" : "FAIL"; }
inline int ExitStatus(long failures) { return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE; }
