// Kernels timed by the benchmark of the software GPU: ordinary CUDA code. Their names are not
// mangled, so the driver's functions find them.
#include <cstdint>

#include "bench/soft/local_stacks.h"
#include "bench/soft/unrolled.h"

namespace {

// c = a * b for square matrices of n rows, n a multiple of kTile.
template <int kTile>
__device__ void Multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < n; start += kTile) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum = fmaf(tile_a[threadIdx.y][k], tile_b[k][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__device__ float SumOfWarp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(0xffffffff, value, distance);
  return value;
}

// Sum of `value` over the block, in thread 0.
__device__ float SumOfBlock(float value) {
  __shared__ float sums[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  value = SumOfWarp(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp == 0) value = SumOfWarp(lane < blockDim.x / 32 ? sums[lane] : 0.0f);
  return value;
}

}  // namespace

using namespace cuspan::bench::soft;

extern "C" {

__global__ void multiply_32(const float* a, const float* b, float* c, int n) {
  Multiply<32>(a, b, c, n);
}

__global__ void multiply_16(const float* a, const float* b, float* c, int n) {
  Multiply<16>(a, b, c, n);
}

__global__ void add_vectors(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

// One sum for each block; the threads stride over all elements.
__global__ void sum_striding(const float* values, float* sums, int count) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    sum += values[i];
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One sum for each block, one element for each thread.
__global__ void sum_each(const float* values, float* sums, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float sum = SumOfBlock(i < count ? values[i] : 0.0f);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One transform of 1024 points for each block of 512 threads; turns[k] = exp(-2 pi i k / 1024).
__global__ void transform_1024(const float2* input, const float2* turns, float2* output) {
  __shared__ float2 points[1024];
  const int thread = threadIdx.x;
  for (int i = thread; i < 1024; i += 512) points[__brev(i) >> 22] = input[blockIdx.x * 1024 + i];
  for (int half = 1; half < 1024; half *= 2) {
    __syncthreads();
    const int offset = thread & (half - 1);
    const int low = (thread - offset) * 2 + offset;
    const int high = low + half;
    const float2 turn = turns[offset * (512 / half)];
    const float2 a = points[low];
    const float2 b = points[high];
    const float2 turned = make_float2(b.x * turn.x - b.y * turn.y, b.x * turn.y + b.y * turn.x);
    points[low] = make_float2(a.x + turned.x, a.y + turned.y);
    points[high] = make_float2(a.x - turned.x, a.y - turned.y);
  }
  __syncthreads();
  for (int i = thread; i < 1024; i += 512) output[blockIdx.x * 1024 + i] = points[i];
}

// Threads searching, each from a different start.
__global__ void count_queens(int size, uint32_t* ways, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) ways[i] = CountWays(size, i);
}

// Threads interpreting a different program each.
__global__ void run_machines(const uint8_t* programs, int steps, uint32_t* results, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) results[i] = RunMachine(programs + i * kMachineBytes, steps, i);
}

// Each thread solves a system of equations in its registers.
__global__ void solve_small(const float* matrix, const float* right, float* x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) SolveSystem<kSmallSystem>(matrix, right, x, count, i);
}
__global__ void solve_large(const float* matrix, const float* right, float* x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) SolveSystem<kLargeSystem>(matrix, right, x, count, i);
}

// Each thread transforms points in its registers.
__global__ void transform_points(const float* input, const float* turns, float* output, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) TransformPoints(input, turns, output, count, i);
}

// Number of steps of Collatz's rule from starts[i] to 1.
__global__ void count_steps(const uint32_t* starts, uint32_t* steps, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t n = starts[i];
  uint32_t taken = 0;
  while (n != 1) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    ++taken;
  }
  steps[i] = taken;
}

__global__ void meet_often(int times) {
  for (int i = 0; i < times; ++i) __syncthreads();
}

// Every block waits until all `blocks` blocks run, so all are resident.
__global__ void be_resident(unsigned* arrived, unsigned blocks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < blocks) {
    }
  }
  __syncthreads();
}

// A kernel of ordinary size, about 450 instructions, launched once.
__global__ void of_ordinary_size(const float* input, float* output, uint32_t* counts, int count) {
  __shared__ float tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = i < count ? input[i] : 0.0f;
  float a = 1.0f;
  float b = x;
#pragma unroll
  for (int k = 1; k <= 32; ++k) {
    a = fmaf(a, x, 1.0f / k);
    b = fmaf(b, a, static_cast<float>(k) * 0.25f);
  }
  uint32_t hash = __float_as_uint(a) ^ i;
#pragma unroll
  for (int k = 0; k < 12; ++k) {
    hash ^= hash << 13;
    hash ^= hash >> 17;
    hash ^= hash << 5;
    if (hash % 3 == 0) hash += 0x9e3779b9u + k;
  }
  tile[threadIdx.x] = b;
  __syncthreads();
  float sum = SumOfWarp(tile[threadIdx.x ^ 1] + a);
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    __syncthreads();
    const float other = tile[(threadIdx.x + (1 << k)) & 255];
    if (hash >> k & 1) sum += other * other;
    __syncthreads();
    tile[threadIdx.x] = sum;
  }
  while (hash > 1000u) {
    hash = hash % 7 < 3 ? hash / 2 : hash - hash / 3;
    sum = sqrtf(fabsf(sum)) + 0.5f;
  }
  if (i < count) {
    output[i] = sum / (1.0f + fabsf(b));
    atomicAdd(&counts[hash & 63], 1u);
  }
}

}  // extern "C"
