// A fake runtime: prints each call, to check the arrival of real programs' calls. Kernels are known
// by the address of their stub.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "interpose/load/load.h"

// The fake driver's reply to every call. Prints why the runtime was not redirected, if known.
extern "C" int cuspan_fake_driver_refuse(const char*) {
  static const bool said = [] {
    if (const char* const warning = cuspan::AnyLoadWarning())
      std::fprintf(stderr, "cuspan: %s\n", warning);
    return true;
  }();
  static_cast<void>(said);
  return 801;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kKernels = 256;
std::mutex mutex;  // Guards the list of kernels.
struct Kernel {
  const void* stub;
  const char* name;
} kernels[kKernels];
int kernel_count = 0;

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local Configuration configuration;

template <typename... Args>
void Say(const char* format, Args... args) {
  char line[256];
  const int size = std::snprintf(line, sizeof(line), format, args...);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(size)) != size) std::abort();
}

const char* NameOf(const void* stub) {
  const std::lock_guard lock(mutex);
  for (int i = 0; i < kernel_count; ++i) {
    if (kernels[i].stub == stub) return kernels[i].name;
  }
  return "unknown";
}

}  // namespace

EXPORTED void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  Say("fake: fat binary\n");
  return &handle;
}
EXPORTED void __cudaRegisterFatBinaryEnd(void**) {}
EXPORTED void __cudaUnregisterFatBinary(void**) { Say("fake: unregister\n"); }
EXPORTED void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*,
                                     uint3*, dim3*, dim3*, int*) {
  const std::lock_guard lock(mutex);
  if (kernel_count < kKernels) kernels[kernel_count++] = {stub, name};
  Say("fake: kernel %s\n", name);
}
EXPORTED void __cudaRegisterVar(void**, char*, char*, const char* name, int, size_t, int, int) {
  Say("fake: variable %s\n", name);
}
EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
EXPORTED cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
EXPORTED cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                      size_t, cudaStream_t) {
  Say("fake: launch %s grid %u block %u count %d\n", NameOf(stub), grid.x, block.x,
      *static_cast<int*>(arguments[3]));
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMalloc(void** pointer, size_t size) {
  Say("fake: cudaMalloc %zu\n", size);
  *pointer = std::malloc(size);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetLastError() { return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceSynchronize() {
  if (cuspan::LoadWarning() != nullptr) Say("fake: warning: %s\n", cuspan::LoadWarning());
  return cudaSuccess;
}
