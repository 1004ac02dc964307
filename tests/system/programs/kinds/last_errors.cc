// Each runtime has its own last error: the program's, and the one of each library linked with a
// runtime (measured natively, driver 580, CUDA 13.0).
//
//   last_errors LIBRARY     made of this file, with AS_LIBRARY
#include <cuda_runtime.h>

#include <cstdio>

#ifdef AS_LIBRARY
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int Fail() {
  std::size_t value = 0;
  return cudaDeviceGetLimit(&value, static_cast<cudaLimit>(99));
}
EXPORT int Peek() { return cudaPeekAtLastError(); }
EXPORT int Take() { return cudaGetLastError(); }
#else
#include <dlfcn.h>

#include <thread>

int main(int, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::printf("FAIL: %s\n", dlerror()), 1;
  const auto function = [library](const char* name) {
    return reinterpret_cast<int (*)()>(dlsym(library, name));
  };
  const auto fail = function("Fail"), peek = function("Peek"), take = function("Take");
  int failures = 0;
  void* memory = nullptr;
  const auto expect = [&failures](int ours, int wanted_ours, int theirs, int wanted_theirs,
                                  const char* when) {
    if (ours == wanted_ours && theirs == wanted_theirs) return;
    ++failures;
    std::printf("FAIL: %s: ours %d, theirs %d\n", when, ours, theirs);
  };
  cudaFree(nullptr);
  expect(cudaPeekAtLastError(), 0, peek(), 0, "at the start");
  expect(0, 0, fail(), cudaErrorInvalidValue, "the library's call");
  expect(cudaPeekAtLastError(), 0, peek(), cudaErrorInvalidValue, "after the library's error");
  expect(cudaMalloc(&memory, std::size_t{1} << 60), cudaErrorMemoryAllocation, 0, 0, "our call");
  expect(cudaPeekAtLastError(), cudaErrorMemoryAllocation, peek(), cudaErrorInvalidValue,
         "after both");
  std::thread([&] { expect(cudaGetLastError(), 0, take(), 0, "in another thread"); }).join();
  expect(cudaGetLastError(), cudaErrorMemoryAllocation, peek(), cudaErrorInvalidValue,
         "ours is taken");
  expect(cudaGetLastError(), 0, take(), cudaErrorInvalidValue, "and theirs");
  expect(cudaGetLastError(), 0, take(), 0, "at the end");
  std::puts(failures == 0 ? "PASS" : "FAIL");
  return failures;
}
#endif
