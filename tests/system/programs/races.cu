// races [NAME]: runs small kernels, each once, or only the named one. Kernels named wrong_… have a
// race, kernels named right_… have none. Prints the name of each before its launch. Tests the race
// check of the software GPU and NVIDIA's tools.
#include <cuda/barrier>

#include <cooperative_groups.h>

#include <cstdio>
#include <cstring>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int kThreads = 128, kBlocks = 4;

// All kernels take device memory, zeros at first, for their own use.
#define KERNEL(name) __global__ void name(int* memory)

// --- Two warps, shared memory

KERNEL(wrong_write_write) {
  __shared__ int place;
  if (threadIdx.x % 32 == 0) place = threadIdx.x + 1;
  __syncthreads();
  memory[threadIdx.x] = place;
}
KERNEL(right_write_write) {
  __shared__ int place;
  if (threadIdx.x == 0) place = threadIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 64) place = threadIdx.x + 1;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = place;
}
KERNEL(wrong_read_after_write) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  if (blockIdx.x == 0) memory[threadIdx.x] = places[kThreads - 1 - threadIdx.x];
}
KERNEL(right_read_after_write) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[kThreads - 1 - threadIdx.x];
}
KERNEL(wrong_write_after_read) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  const int other = places[(threadIdx.x + 32) % kThreads];
  places[threadIdx.x] = other + 1000;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x];
}
KERNEL(right_write_after_read) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  const int other = places[(threadIdx.x + 32) % kThreads];
  __syncthreads();
  places[threadIdx.x] = other + 1000;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x];
}

// A reduction reusing its shared memory.
__device__ int Sum(int value, int* places) {
  for (int step = 16; step != 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) places[threadIdx.x / 32] = value;
  __syncthreads();
  return places[0] + places[1] + places[2] + places[3];
}
KERNEL(wrong_reduction_twice) {
  __shared__ int places[kThreads / 32];
  const int first = Sum(threadIdx.x, places);
  const int second = Sum(threadIdx.x * 2 + 1, places);
  if (blockIdx.x == 0) memory[threadIdx.x] = first + second;
}
KERNEL(right_reduction_twice) {
  __shared__ int places[kThreads / 32];
  const int first = Sum(threadIdx.x, places);
  __syncthreads();
  const int second = Sum(threadIdx.x * 2 + 1, places);
  if (blockIdx.x == 0) memory[threadIdx.x] = first + second;
}

// A tree reduction without its last barriers (in wrong_tree).
template <bool kRight>
__device__ void Tree(int* memory) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x;
  __syncthreads();
  for (int step = kThreads / 2; step != 0; step /= 2) {
    if (threadIdx.x < step) places[threadIdx.x] += places[threadIdx.x + step];
    if (kRight || step > 32) __syncthreads();
  }
  if (threadIdx.x == 0) memory[blockIdx.x] = places[0];
}
KERNEL(wrong_tree) { Tree<false>(memory); }
KERNEL(right_tree) { Tree<true>(memory); }

// --- Within a warp

KERNEL(wrong_within_a_warp) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 1];
}
KERNEL(right_within_a_warp) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncwarp();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 1];
}
KERNEL(wrong_part_of_a_warp) {
  __shared__ int places[32];
  if (threadIdx.x >= 32) return;
  places[threadIdx.x] = threadIdx.x + 1;
  // Each half synchronizes only with itself.
  __syncwarp(threadIdx.x < 16 ? 0xffff : 0xffff0000);
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 16];
}
KERNEL(right_part_of_a_warp) {
  __shared__ int places[32];
  if (threadIdx.x >= 32) return;
  places[threadIdx.x] = threadIdx.x + 1;
  __syncwarp(threadIdx.x < 16 ? 0xffff : 0xffff0000);
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 8];
}
KERNEL(wrong_syncwarp_for_two_warps) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncwarp();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 32];
}
KERNEL(right_tile) {
  __shared__ int places[kThreads];
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  places[threadIdx.x] = threadIdx.x + 1;
  tile.sync();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 4];
}
KERNEL(wrong_tile) {
  __shared__ int places[kThreads];
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  places[threadIdx.x] = threadIdx.x + 1;
  tile.sync();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 8];
}
KERNEL(wrong_bytes) {
  __shared__ int words[kThreads / 4];
  auto* bytes = reinterpret_cast<unsigned char*>(words);
  bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x + 1);
  if (threadIdx.x < kThreads / 4 && blockIdx.x == 0) memory[threadIdx.x] = words[threadIdx.x];
}
KERNEL(right_bytes) {
  __shared__ unsigned char bytes[kThreads];
  // Different bytes of a word do not race.
  bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x + 1);
  if (blockIdx.x == 0) memory[threadIdx.x] = bytes[threadIdx.x];
}

// Only volatile accesses: right only while the warp runs in lock step.
KERNEL(wrong_lockstep) {
  __shared__ volatile int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 1];
}
KERNEL(right_lockstep) {
  __shared__ volatile int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  __syncwarp();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 1];
}
KERNEL(wrong_global_lockstep) {
  volatile int* const own = memory + blockIdx.x * kThreads;
  own[threadIdx.x] = threadIdx.x + 1;
  memory[1024 + blockIdx.x * kThreads + threadIdx.x] = own[threadIdx.x ^ 1];
}
// A flag between lanes, with fences.
KERNEL(right_flag) {
  __shared__ volatile int flag, place;
  if (threadIdx.x == 0) flag = place = 0;
  __syncthreads();
  if (threadIdx.x == 1) {
    place = 7;
    __threadfence_block();
    flag = 1;
  } else if (threadIdx.x == 2) {
    while (flag == 0) {
    }
    __threadfence_block();
    if (blockIdx.x == 0) memory[0] = place;
  }
}

// --- Named barriers

__device__ void Arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ void Wait(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
KERNEL(right_producer) {
  __shared__ int places[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    places[lane] = lane + 1;
    Arrive(1, 64);
  } else if (warp == 1) {
    Wait(1, 64);
    if (blockIdx.x == 0) memory[lane] = places[31 - lane];
  }
}
KERNEL(wrong_producer) {
  __shared__ int places[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    Arrive(1, 64);
    places[lane] = lane + 1;
  } else if (warp == 1) {
    Wait(1, 64);
    if (blockIdx.x == 0) memory[lane] = places[31 - lane];
  }
}
KERNEL(right_halves) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  Wait(1 + threadIdx.x / 64, 64);
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 32];
}
KERNEL(wrong_halves) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  Wait(1 + threadIdx.x / 64, 64);
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x ^ 64];
}
KERNEL(right_barrier_object) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int places[kThreads];
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  places[threadIdx.x] = threadIdx.x + 1;
  barrier.arrive_and_wait();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[kThreads - 1 - threadIdx.x];
}
KERNEL(wrong_barrier_object) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int places[kThreads];
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  auto token = barrier.arrive();
  places[threadIdx.x] = threadIdx.x + 1;
  barrier.wait(std::move(token));
  if (blockIdx.x == 0) memory[threadIdx.x] = places[kThreads - 1 - threadIdx.x];
}
KERNEL(right_who_has_left) {
  __shared__ int places[kThreads];
  places[threadIdx.x] = threadIdx.x + 1;
  if (threadIdx.x >= 64) return;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = places[threadIdx.x + 64];
}

// --- Global memory

KERNEL(wrong_global_of_warps) { memory[threadIdx.x % 32] += threadIdx.x + 1; }
KERNEL(right_global_of_warps) { atomicAdd(&memory[threadIdx.x % 32], threadIdx.x + 1); }
KERNEL(wrong_global_neighbour) {
  int* const own = memory + blockIdx.x * kThreads;
  own[threadIdx.x] = threadIdx.x + 1;
  memory[1024 + blockIdx.x * kThreads + threadIdx.x] = own[(threadIdx.x + 1) % kThreads];
}
KERNEL(right_global_neighbour) {
  int* const own = memory + blockIdx.x * kThreads;
  own[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  memory[1024 + blockIdx.x * kThreads + threadIdx.x] = own[(threadIdx.x + 1) % kThreads];
}
KERNEL(wrong_global_of_blocks) {
  if (threadIdx.x == 0) memory[0] += blockIdx.x + 1;
}
KERNEL(right_global_of_blocks) {
  if (threadIdx.x == 0) atomicAdd(memory, blockIdx.x + 1);
}
// The last block adds the values of all blocks.
template <bool kRight>
__device__ void LastBlock(int* memory) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    if (kRight) memory[blockIdx.x + 1] = blockIdx.x + 1;
    __threadfence();
    last = atomicAdd(memory, 1) == gridDim.x - 1;
    if (!kRight) memory[blockIdx.x + 1] = blockIdx.x + 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += memory[i + 1];
  memory[1000] = sum;
}
KERNEL(right_last_block) { LastBlock<true>(memory); }
KERNEL(wrong_last_block) { LastBlock<false>(memory); }
KERNEL(right_same_value) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  // All threads write the same value.
  found = 7;
  memory[0] = 7;
  __syncthreads();
  if (blockIdx.x == 0) memory[1 + threadIdx.x] = found;
}
KERNEL(wrong_atomic_and_plain) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 5;
  atomicAdd(&count, 1);
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = count;
}
KERNEL(right_atomic_and_plain) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 5;
  __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = count;
}
// A lock of one word.
KERNEL(right_lock) {
  __shared__ int lock, count;
  if (threadIdx.x == 0) lock = count = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    __threadfence_block();
    ++count;
    __threadfence_block();
    atomicExch(&lock, 0);
  }
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = count;
}
KERNEL(wrong_dynamic) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x % 64] = threadIdx.x + 1;
  __syncthreads();
  if (blockIdx.x == 0) memory[threadIdx.x] = dynamic[threadIdx.x % 64];
}
KERNEL(right_double_buffer) {
  __shared__ int buffers[2][kThreads];
  for (int round = 0; round < 6; ++round) {
    buffers[round % 2][threadIdx.x] = threadIdx.x + round;
    __syncthreads();
    if (blockIdx.x == 0) memory[threadIdx.x] += buffers[round % 2][kThreads - 1 - threadIdx.x];
  }
}
KERNEL(wrong_single_buffer) {
  __shared__ int buffer[kThreads];
  for (int round = 0; round < 6; ++round) {
    buffer[threadIdx.x] = threadIdx.x + round;
    __syncthreads();
    if (blockIdx.x == 0) memory[threadIdx.x] += buffer[kThreads - 1 - threadIdx.x];
  }
}

// Heap memory of the device, used by one thread after another.
KERNEL(right_heap) {
  for (const size_t bytes : {size_t{64}, size_t{200'000}}) {
    if (bytes > 64 && threadIdx.x != 0) continue;
    auto* const own = static_cast<int*>(malloc(bytes));
    if (own == nullptr) continue;
    own[1] = threadIdx.x + blockIdx.x + 1;
    memory[blockIdx.x * kThreads + threadIdx.x] += own[1];
    own[1] = -1;
    free(own);
  }
}

struct Test {
  const char* name;
  void (*kernel)(int*);
};
#define TEST(name) \
  Test { #name, name }
const Test kTests[] = {
    TEST(wrong_write_write),
    TEST(right_write_write),
    TEST(wrong_read_after_write),
    TEST(right_read_after_write),
    TEST(wrong_write_after_read),
    TEST(right_write_after_read),
    TEST(wrong_reduction_twice),
    TEST(right_reduction_twice),
    TEST(wrong_tree),
    TEST(right_tree),
    TEST(wrong_within_a_warp),
    TEST(right_within_a_warp),
    TEST(wrong_part_of_a_warp),
    TEST(right_part_of_a_warp),
    TEST(wrong_syncwarp_for_two_warps),
    TEST(right_tile),
    TEST(wrong_tile),
    TEST(wrong_bytes),
    TEST(right_bytes),
    TEST(wrong_lockstep),
    TEST(right_lockstep),
    TEST(wrong_global_lockstep),
    TEST(right_flag),
    TEST(right_producer),
    TEST(wrong_producer),
    TEST(right_halves),
    TEST(wrong_halves),
    TEST(right_barrier_object),
    TEST(wrong_barrier_object),
    TEST(right_who_has_left),
    TEST(wrong_global_of_warps),
    TEST(right_global_of_warps),
    TEST(wrong_global_neighbour),
    TEST(right_global_neighbour),
    TEST(wrong_global_of_blocks),
    TEST(right_global_of_blocks),
    TEST(right_last_block),
    TEST(wrong_last_block),
    TEST(right_same_value),
    TEST(wrong_atomic_and_plain),
    TEST(right_atomic_and_plain),
    TEST(right_lock),
    TEST(wrong_dynamic),
    TEST(right_double_buffer),
    TEST(wrong_single_buffer),
    TEST(right_heap),
    {"right_graph", right_global_neighbour},
};

// Launches the kernel in a graph, several times.
void LaunchGraph(void (*kernel)(int*), int* memory) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  // A graph of two nodes would be launched node by node.
  for (int i = 0; i < 3; ++i) CHECK(cudaMemsetAsync(memory, 0, 4096 * sizeof(int), stream));
  kernel<<<kBlocks, kThreads, 0, stream>>>(memory);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 4; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
  int* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4096 * sizeof(int)));
  for (const Test& test : kTests) {
    if (argc > 1 && std::strcmp(argv[1], test.name) != 0) continue;
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    CHECK(cudaMemset(memory, 0, 4096 * sizeof(int)));
    if (std::strcmp(test.name, "right_graph") == 0) {
      LaunchGraph(test.kernel, memory);
    } else {
      test.kernel<<<kBlocks, kThreads, 64 * sizeof(int)>>>(memory);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
  }
  return 0;
}
