// Compiled by nvcc into the fat binary of the driver's tests.
#include <cooperative_groups.h>

#include <cstdio>

namespace cg = cooperative_groups;

__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int counter = 7;
__device__ int* pointer_to_counter = &counter;

struct Shape {
  char kind;
  double scale;
  int offset[3];
};

extern "C" {

__global__ void Store(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }

__global__ void Add(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i] * weights[i & 3];
}

__global__ void Increment(int* value) { ++*value; }

__global__ void ReadWeight(int at, float* result) { *result = weights[at]; }

__global__ void MatMul(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[16][16], tile_b[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void Reduce(const int* values, int n, int* total) {
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += values[i];
  }
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffff, sum, delta);
  if ((threadIdx.x & 31) == 0) atomicAdd(total, sum);
}

__global__ void Reverse(int* values) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = dynamic[blockDim.x - 1 - threadIdx.x];
}

__global__ void Mixed(char a, Shape shape, short b, double* result) {
  result[0] = a + shape.scale * shape.offset[1] + b + shape.kind;
}

__global__ void Count(int* through_pointer) {
  atomicAdd(&counter, 1);
  *through_pointer = *pointer_to_counter;
}

__global__ void WaitFor(volatile int* flag) {
  while (*flag == 0) {
  }
}

__global__ void __launch_bounds__(128) Bounded(int* to) { to[threadIdx.x] = 1; }

__global__ void GridSync(int* arrived, int* wrong) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 1; round <= 3; ++round) {
    if (threadIdx.x == 0) atomicAdd(arrived, 1);
    grid.sync();
    if (*(volatile int*)arrived < round * (int)gridDim.x) atomicAdd(wrong, 1);
    grid.sync();
  }
}

__global__ void Print(int value) { printf("block %d says %d and %.2f\n", blockIdx.x, value, 0.25); }

__global__ void BadStore() { *(volatile int*)16 = 1; }
__global__ void Trap() { __trap(); }

// --- For fault_test.cc. The loops are PTX: C++ compilers may assume that loops end

__device__ void RunForever() { asm volatile("{\n\tforever:\n\tbra.uni forever;\n\t}"); }

__global__ void Forever() { RunForever(); }

__global__ void TrapOrForever() {
  if (blockIdx.x == 0) __trap();
  RunForever();
}

__global__ void MeetForever() {
  asm volatile("{\n\tforever:\n\tbar.sync 0;\n\tbra.uni forever;\n\t}");
}

__global__ void PrintForever(volatile int* never) {
  while (*never == 0) printf("still here\n");
}

__global__ void StoreAt(char* base, long long offset) {
  if (blockIdx.x == 1 && threadIdx.x == 3) *reinterpret_cast<int*>(base + offset) = 1;
}

__global__ void SharedAt(int* to, int index) {
  __shared__ int values[32];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) *to = *(volatile int*)&values[index];
}

__global__ void LegalAccesses(int* sum) {
  int local[8];
  for (int i = 0; i < 8; ++i) local[(i + threadIdx.x) % 8] = i;
  int* heap = static_cast<int*>(malloc(64));
  heap[15] = local[(2 + threadIdx.x) % 8];
  printf("%s", heap[15] == 2 ? "" : "wrong");
  atomicAdd(sum, heap[15] + static_cast<int>(weights[3]));
  free(heap);
}

}  // extern "C"
