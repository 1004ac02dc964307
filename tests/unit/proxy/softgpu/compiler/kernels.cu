// Kernels typical of programs. nvcc compiles them to the PTX run by nvcc_test.cc.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>
#include <cuda/barrier>

// The kernel initialises its barrier object in shared memory.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;

extern "C" __global__ void VectorAdd(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

template <typename T, int kTile>
__device__ void Multiply(const T* a, const T* b, T* c, int n) {
  __shared__ T tile_a[kTile][kTile];
  __shared__ T tile_b[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  T sum = 0;
  for (int k = 0; k < n; k += kTile) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
extern "C" __global__ void MultiplyFloat(const float* a, const float* b, float* c, int n) {
  Multiply<float, 16>(a, b, c, n);
}
extern "C" __global__ void MultiplyDouble(const double* a, const double* b, double* c, int n) {
  Multiply<double, 8>(a, b, c, n);
}

// One block transforms one signal of 2 * blockDim.x points, in dynamic shared memory.
extern "C" __global__ void Fft(const float2* in, float2* out, int log2_n) {
  extern __shared__ float2 data[];
  const int n = 1 << log2_n;
  in += blockIdx.x * n;
  out += blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[__brev(i) >> (32 - log2_n)] = in[i];
  for (int half = 1; half < n; half *= 2) {
    __syncthreads();
    const int k = threadIdx.x & (half - 1);
    const int i = 2 * (threadIdx.x - k) + k;
    float sine, cosine;
    sincosf(-3.14159265358979f * k / half, &sine, &cosine);
    const float2 x = data[i], y = data[i + half];
    const float2 t = {y.x * cosine - y.y * sine, y.x * sine + y.y * cosine};
    data[i] = {x.x + t.x, x.y + t.y};
    data[i + half] = {x.x - t.x, x.y - t.y};
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = data[i];
}

extern "C" __global__ void Reduce(const int* in, int n, unsigned long long* total, int* largest) {
  __shared__ long long warps[32];
  long long sum = 0;
  int most = INT_MIN;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += in[i];
    most = max(most, in[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(0xffffffff, sum, offset);
    most = max(most, __shfl_xor_sync(0xffffffff, most, offset));
  }
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = sum;
    atomicMax(largest, most);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) atomicAdd(total, static_cast<unsigned long long>(sum));
  }
}

__constant__ float coefficients[4] = {1, 2, 3, 4};
__device__ int counter = 5;
__device__ int* counter_address = &counter;
extern "C" __global__ void UseVariables(float* out) {
  out[threadIdx.x] = coefficients[threadIdx.x & 3];
  atomicAdd(counter_address, 1);
}

struct Shape {
  char tag;
  double scale;
  int offsets[3];
  float weights[2];
};
__device__ __noinline__ Shape Grow(Shape shape, int by) {
  shape.scale *= by;
  shape.offsets[by % 3] += by;
  return shape;
}
extern "C" __global__ void StructArguments(Shape shape, int by, double* out) {
  const Shape grown = Grow(shape, by);
  out[0] = grown.scale;
  for (int i = 0; i < 3; ++i) out[1 + i] = grown.offsets[i];
  out[4] = grown.weights[1] + grown.tag;
}

extern "C" __global__ void ThreeDimensions(int* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  out[(z * height + y) * width + x] = x + 100 * y + 10000 * z;
}

__device__ __noinline__ unsigned Fibonacci(unsigned n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}
extern "C" __global__ void Recursion(unsigned* out) { out[threadIdx.x] = Fibonacci(threadIdx.x); }

__device__ int Twice(int x) { return 2 * x; }
__device__ int Square(int x) { return x * x; }
typedef int (*Function)(int);
__device__ Function functions[2] = {Twice, Square};
struct Animal {
  __device__ virtual int Legs(int x) const = 0;
};
struct Bird : Animal {
  __device__ int Legs(int x) const override { return 2 * x; }
};
struct Insect : Animal {
  __device__ int Legs(int x) const override { return 6 * x; }
};
extern "C" __global__ void Pointers(int* out) {
  const int i = threadIdx.x;
  Bird bird;
  Insect insect;
  const Animal* animal = i % 3 == 0 ? static_cast<Animal*>(&bird) : &insect;
  out[i] = functions[i & 1](i) + 1000 * animal->Legs(i);
}

extern "C" __global__ void Print(int n) {
  if (threadIdx.x == 0) printf("%d %5.2f %s %c %lld %x\n", n, n / 4.0, "text", 'z', 1LL << 40, 255);
}
extern "C" __global__ void Assert(int limit) { assert(static_cast<int>(threadIdx.x) < limit); }

extern "C" __global__ void Doubles(const double* in, double* out) {
  const double x = in[threadIdx.x];
  out += 8 * threadIdx.x;
  out[0] = sqrt(x);
  out[1] = exp(x / 10);
  out[2] = log(x);
  out[3] = sin(x);
  out[4] = pow(x, 1.5);
  out[5] = x / 3;
  out[6] = fma(x, x, -1.0);
  out[7] = floor(x) + rint(x / 3);
}
extern "C" __global__ void Floats(const float* in, float* out) {
  const float x = in[threadIdx.x];
  out += 10 * threadIdx.x;
  out[0] = sqrtf(x);
  out[1] = expf(x / 10);
  out[2] = logf(x);
  out[3] = sinf(x);
  out[4] = powf(x, 1.5f);
  out[5] = x / 3;
  out[6] = tanf(x);
  out[7] = rsqrtf(x);
  out[8] = cbrtf(x);
  out[9] = erff(x / 10);
}
extern "C" __global__ void LongIntegers(const long long* in, long long* out) {
  const long long x = in[threadIdx.x], y = in[threadIdx.x + 1] | 1;
  out += 6 * threadIdx.x;
  out[0] = x / y;
  out[1] = x % y;
  out[2] = static_cast<unsigned long long>(x) / static_cast<unsigned long long>(y);
  out[3] = __mul64hi(x, y);
  out[4] = __popcll(x) + __clzll(y) + __ffsll(x);
  out[5] = x >> (y & 63);
}

extern "C" __global__ void Halves(const float* in, float* out) {
  const __half x = __float2half(in[threadIdx.x]), y = __float2half(in[threadIdx.x + 1]);
  out += 6 * threadIdx.x;
  out[0] = __half2float(__hadd(x, y));
  out[1] = __half2float(__hmul(x, y));
  out[2] = __half2float(__hfma(x, y, x));
  const __half2 pair = __halves2half2(x, y);
  const __half2 result = __hadd2(__hmul2(pair, pair), pair);
  out[3] = __low2float(result);
  out[4] = __high2float(result);
  const __nv_bfloat16 b = __float2bfloat16(in[threadIdx.x]);
  out[5] = __bfloat162float(b * b);
}

extern "C" __global__ void Heap(int* out) {
  int* memory = static_cast<int*>(malloc(4 * sizeof(int)));
  for (int i = 0; i < 4; ++i) memory[i] = threadIdx.x + i;
  out[threadIdx.x] = memory[0] + memory[3];
  free(memory);
}

extern "C" __global__ void WarpFunctions(unsigned* out) {
  const unsigned lane = threadIdx.x;
  out[lane] = __ballot_sync(0xffffffff, lane % 3 == 0);
  out[32 + lane] = __shfl_sync(0xffffffff, lane * 10, lane + 1, 8);
  out[64 + lane] = __match_any_sync(0xffffffff, lane / 4);
  out[96 + lane] = __any_sync(0xffffffff, lane == 31) + 2 * __all_sync(0xffffffff, lane < 31);
  unsigned active = 0;
  if (lane < 10) {
    active = __activemask();
    active = __popc(__ballot_sync(active, 1));
  }
  __syncwarp();
  out[128 + lane] = active;
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  unsigned sum = lane;
  for (int offset = 4; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
  out[160 + lane] = sum;
  out[192 + lane] = __syncthreads_count(lane & 1) + 100 * __syncthreads_or(lane == 7);
  if (lane < 16) return;
  out[224 + lane] = __shfl_up_sync(0xffff0000, lane, 1);
}

// A lock contended by threads of one block and of several blocks.
__device__ int lock;
extern "C" __global__ void Lock(int* value) {
  while (atomicCAS(&lock, 0, 1) != 0) {
  }
  __threadfence();
  *static_cast<volatile int*>(value) = *static_cast<volatile int*>(value) + 1;
  __threadfence();
  atomicExch(&lock, 0);
}
// The last thread of the block waits for a write of the first.
extern "C" __global__ void Flag(int* out) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (flag != 7) {
    }
    out[0] = 1;
  } else if (threadIdx.x == blockDim.x - 1) {
    flag = 7;
  }
}
extern "C" __global__ void AtomicFunctions(float* f, double* d, unsigned* u,
                                           unsigned long long* l) {
  atomicAdd(f, 1.5f);
  atomicAdd(d, 0.25);
  atomicInc(u, 99);
  atomicSub(u + 1, 2);
  atomicMin(l, 1000ull + threadIdx.x);
  atomicXor(u + 2, 1u << (threadIdx.x & 31));
  // Written out as a compare-and-swap loop.
  unsigned long long seen = l[1], assumed;
  do {
    assumed = seen;
    seen = atomicCAS(l + 1, assumed, assumed + 3);
  } while (assumed != seen);
}
extern "C" __global__ void Switch(const int* in, int* out) {
  int r = 0;
  switch (in[threadIdx.x]) {
    case 0:
      r = 5;
      break;
    case 1:
      r = threadIdx.x * 3;
      break;
    case 2:
      r = -7;
      break;
    case 3:
      r = in[threadIdx.x + 1] / 2;
      break;
    case 4:
      r = 11;
      break;
    case 5:
      r = 1 << (threadIdx.x & 7);
      break;
    case 6:
      r = clock() != 0 ? 66 : 67;
      break;
    default:
      r = -1;
  }
  out[threadIdx.x] = r;
}

// Barrier objects, asynchronous copies and the groups of cooperative_groups.
extern "C" __global__ void BarrierObject(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int data[64];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  const auto block = cg::this_thread_block();
  for (int round = 0; round < 3; ++round) {
    cuda::memcpy_async(block, data, in + 64 * round, sizeof data, barrier);
    barrier.arrive_and_wait();
    out[64 * round + threadIdx.x] = data[63 - threadIdx.x];
    barrier.arrive_and_wait();
  }
}
extern "C" __global__ void Groups(const int* in, int* out) {
  __shared__ int data[64];
  const auto block = cg::this_thread_block();
  cg::memcpy_async(block, data, in, sizeof data);
  cg::wait(block);
  const auto warp = cg::tiled_partition<32>(block);
  int result = cg::reduce(warp, data[threadIdx.x], cg::plus<int>());
  if (threadIdx.x % 3 == 0) {
    const auto group = cg::coalesced_threads();
    result += 1000 * group.size() + 100000 * group.shfl(static_cast<int>(threadIdx.x), 0);
  }
  out[threadIdx.x] = result;
}
