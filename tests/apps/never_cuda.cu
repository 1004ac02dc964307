// A program with a kernel but without any CUDA call. Prints its arguments, one per line, and the
// number of its environment variables.
//
//   never_cuda [ARGUMENT…]
#include <unistd.h>

#include <cstdio>

namespace {

// Never launched. Makes the compiler register an image at the start of the program.
__global__ void Unused(int* value) { *value = 1; }

// Keeps the kernel, and with it the CUDA runtime, in the program.
[[maybe_unused]] void NeverCalled() { Unused<<<1, 1>>>(nullptr); }

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) std::printf("argument %d: %s\n", i, argv[i]);
  int variables = 0;
  while (environ[variables] != nullptr) ++variables;
  std::printf("never_cuda: %d arguments, %d variables: PASS\n", argc - 1, variables);
  return 0;
}
