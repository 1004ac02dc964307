// Creates only a context on device 0. Reference for the memory of a proxy.
//
//   bench-context LIBRARY      the driver's library, libcuda.so.1
// Prints "ready", and exits at the end of its standard input.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc == 2 ? ::dlopen(argv[1], RTLD_NOW) : nullptr;
  if (library == nullptr) return 2;
  const auto initialise = Find<decltype(cuInit)>(library, "cuInit");
  const auto retain = Find<decltype(cuDevicePrimaryCtxRetain)>(library, "cuDevicePrimaryCtxRetain");
  const auto set = Find<decltype(cuCtxSetCurrent)>(library, "cuCtxSetCurrent");
  CUcontext context = nullptr;
  if (initialise == nullptr || retain == nullptr || set == nullptr ||
      initialise(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS ||
      set(context) != CUDA_SUCCESS)
    return 3;
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
