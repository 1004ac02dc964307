// counts BLOCKS [KERNELS]: launches kernels of BLOCKS blocks, 16 at a time; each kernel increments
// a counter on the device. Prints the number of kernels after each 16. After KERNELS kernels, or at
// the end of its input, it checks the counter and ends. "fault" in its input: a kernel writes to an
// invalid address.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"

__global__ void Count(unsigned* count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) ++*count;
}

__global__ void WriteNowhere() { *reinterpret_cast<volatile int*>(16) = 1; }

int main(int argc, char** argv) {
  const unsigned blocks = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const unsigned kernels = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : ~0U;
  unsigned* count = nullptr;
  CHECK(cudaMalloc(&count, sizeof *count));
  CHECK(cudaMemset(count, 0, sizeof *count));
  CHECK(cudaDeviceSynchronize());
  std::puts("ready");
  std::fflush(stdout);
  char order[16] = {};
  if (std::fgets(order, sizeof order, stdin) == nullptr) return 3;
  unsigned launched = 0;
  while (launched < kernels) {
    for (int i = 0; i < 16; ++i) Count<<<blocks, 32>>>(count);
    CHECK(cudaDeviceSynchronize());
    launched += 16;
    std::printf("%u\n", launched);
    std::fflush(stdout);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) != 1) continue;
    const ssize_t got = ::read(STDIN_FILENO, order, sizeof order - 1);
    if (got <= 0) break;
    if (std::strncmp(order, "fault", 5) != 0) continue;
    WriteNowhere<<<1, 1>>>();
    const cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 1 : 0;
  }
  unsigned counted = 0;
  CHECK(cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDeviceToHost));
  std::printf("counted %u of %u\n", counted, launched);
  return counted == launched ? 0 : 1;
}
