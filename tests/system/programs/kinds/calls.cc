// Calls the library half: linked in, as a needed library, or loaded at run time.
//
//   calls | loads LIBRARY…
#include <cstdio>

#include "adds.h"

#ifdef LOADS
#include <dlfcn.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    // Twice: unloading the library removes its kernels.
    for (int round = 0; round < 2; ++round) {
      void* const library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        std::printf("FAIL: %s\n", dlerror());
        return 1;
      }
      auto* const adds = reinterpret_cast<decltype(&AddsOnDevice)>(dlsym(library, "AddsOnDevice"));
      if (adds == nullptr || !adds(1000)) {
        std::printf("FAIL: %s\n", argv[i]);
        return 1;
      }
      dlclose(library);
    }
  }
  std::printf("PASS\n");
}
#else
int main() {
  const bool right = AddsOnDevice(5) && AddsOnDevice(100000);
  std::printf(right ? "PASS\n" : "FAIL\n");
  return right ? 0 : 1;
}
#endif
