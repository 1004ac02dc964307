// long_kernel X Y Z: launches a kernel with a grid of X x Y x Z blocks again and again. Each block
// stores its position in the grid times a factor, and increments a variable of the module. The
// factor is in constant memory and changes from launch to launch. Checks all results after each
// launch and prints the number of right launches. Ends at the end of its input.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

__constant__ unsigned factor;
__device__ unsigned blocks_done;

__device__ __noinline__ unsigned Scaled(unsigned number) { return number * factor; }

__global__ void NoteBlocks(unsigned* notes) {
  __shared__ unsigned number;
  if (threadIdx.x == 0) number = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  __syncthreads();
  if (threadIdx.x != blockDim.x - 1) return;
  notes[number] = Scaled(number);
  atomicAdd(&blocks_done, 1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const dim3 grid(std::strtoul(argv[1], nullptr, 10), std::strtoul(argv[2], nullptr, 10),
                  std::strtoul(argv[3], nullptr, 10));
  const unsigned blocks = grid.x * grid.y * grid.z;
  unsigned* notes = nullptr;
  CHECK(cudaMalloc(&notes, blocks * sizeof *notes));
  std::puts("ready");
  std::fflush(stdout);
  char order[16] = {};
  if (std::fgets(order, sizeof order, stdin) == nullptr) return 3;
  std::vector<unsigned> found(blocks);
  unsigned launched = 0;
  for (;;) {
    const unsigned scale = ++launched;
    const unsigned zero = 0;
    CHECK(cudaMemcpyToSymbol(factor, &scale, sizeof scale));
    CHECK(cudaMemcpyToSymbol(blocks_done, &zero, sizeof zero));
    CHECK(cudaMemset(notes, 0xff, blocks * sizeof *notes));
    NoteBlocks<<<grid, 1024>>>(notes);
    CHECK(cudaMemcpy(found.data(), notes, blocks * sizeof *notes, cudaMemcpyDeviceToHost));
    unsigned done = 0;
    CHECK(cudaMemcpyFromSymbol(&done, blocks_done, sizeof done));
    if (done != blocks) {
      std::printf("launch %u: %u of %u blocks\n", launched, done, blocks);
      return 1;
    }
    for (unsigned i = 0; i < blocks; ++i) {
      if (found[i] == i * scale) continue;
      std::printf("launch %u, block %u: %u, not %u\n", launched, i, found[i], i * scale);
      return 1;
    }
    std::printf("%u\n", launched);
    std::fflush(stdout);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) == 1 && ::read(STDIN_FILENO, order, sizeof order) <= 0) break;
  }
  std::printf("counted %u of %u\n", launched, launched);
  return 0;
}
