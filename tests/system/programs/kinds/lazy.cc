// A program calling the runtime like XLA and TensorFlow: through functions with the runtime's
// names. They only jump through a table filled by dlsym.
//
//   lazy NAME RELEASE     NAME: runtime to load; RELEASE: expected result of
//                         cudaRuntimeGetVersion
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// Functions of all releases; some exist only in one.
#define STUBS(stub)                                                                      \
  stub(0, __cudaRegisterFatBinary) stub(1, cudaGetDeviceProperties)                      \
      stub(2, cudaGetDeviceProperties_v2) stub(3, cudaRuntimeGetVersion)                 \
          stub(4, cudaDeviceGetAttribute) stub(5, cudaUnbindTexture) stub(6, cudaMalloc) \
              stub(7, cudaFree) stub(8, cudaMemAdvise) stub(9, cudaMemAdvise_v2)

extern "C" {
__attribute__((visibility("hidden"))) void* stub_table[10];
}

#define STUB(number, name)                                                                         \
  asm(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name \
      ":\n"                                                                                        \
      "cmpq $0, stub_table+8*" #number                                                             \
      "(%rip)\nje 1f\n"                                                                            \
      "jmp *stub_table+8*" #number "(%rip)\n1: ud2\n");
STUBS(STUB)

int main(int, char** arguments) {
  void* const runtime = dlopen(arguments[1], RTLD_NOW);
  if (runtime == nullptr) return std::printf("%s\n", dlerror()), 2;
#define FILL(number, name) stub_table[number] = dlsym(runtime, #name);
  STUBS(FILL)
  int version = 0, processors = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess || version / 1000 != std::atoi(arguments[2]))
    return std::printf("the runtime's version is %d\n", version), 1;
  if (version / 1000 == CUDART_VERSION / 1000) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess ||
        properties.multiProcessorCount != processors)
      return std::printf("%d of %d multiprocessors\n", properties.multiProcessorCount, processors),
             1;
  }
  std::puts("PASS");
}
