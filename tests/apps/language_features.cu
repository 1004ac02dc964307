// Language features of CUDA C++: constant and device variables, templates, structs as arguments,
// grids of three dimensions, static and dynamic shared memory, function pointers, recursion.
//
//   language_features
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

// --- Constant and device variables -------------------------------------------------------------

constexpr int kCoefficients = 5;
__constant__ float coefficients[kCoefficients];
__constant__ int constant_with_value = 42;
__device__ unsigned calls;                      // zero at load, as any variable of static storage
__device__ double scale_factor = 2.5;           // initialised in the image
__device__ int table[4][8] = {{1, 2, 3}, {4}};  // partly initialised: the rest is zero
__device__ const char text[] = "device text";

struct Settings {
  int offset;
  double weight;
};
__device__ Settings settings = {7, 0.125};

// A variable pointing to another one.
__device__ double* pointer_to_scale = &scale_factor;

__global__ void Polynomial(const float* x, float* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = 0.0f;
  for (int k = kCoefficients - 1; k >= 0; --k) sum = fmaf(sum, x[i], coefficients[k]);
  y[i] = sum;
  atomicAdd(&calls, 1u);
}

__global__ void UseVariables(double* out) {
  const int i = threadIdx.x;
  if (i < 32) table[i / 8][i % 8] += i + constant_with_value;
  if (i == 0) {
    out[0] = *pointer_to_scale * settings.weight + settings.offset;
    settings.offset += 1;
    *pointer_to_scale = -1.0;
    int length = 0;
    while (text[length] != '\0') ++length;
    out[1] = length;
  }
}

int CheckVariables() {
  int failures = 0;
  constexpr int kCount = 1000;
  const float host_coefficients[kCoefficients] = {1.0f, -2.0f, 0.5f, 3.0f, -0.25f};
  // Two pieces, the second at an offset.
  CHECK(cudaMemcpyToSymbol(coefficients, host_coefficients, 2 * sizeof(float)));
  CHECK(cudaMemcpyToSymbol(coefficients, host_coefficients + 2, 3 * sizeof(float),
                           2 * sizeof(float), cudaMemcpyHostToDevice));
  std::vector<float> x(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = i * 0.002f - 1.0f;
  float* device_x = nullptr;
  float* device_y = nullptr;
  CHECK(cudaMalloc(&device_x, kCount * sizeof(float)));
  CHECK(cudaMalloc(&device_y, kCount * sizeof(float)));
  CHECK(cudaMemcpy(device_x, x.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
  Polynomial<<<(kCount + 127) / 128, 128>>>(device_x, device_y, kCount);
  CHECK_LAUNCH();
  std::vector<float> y(kCount);
  CHECK(cudaMemcpy(y.data(), device_y, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    double expected = 0.0;
    for (int k = kCoefficients - 1; k >= 0; --k) expected = expected * x[i] + host_coefficients[k];
    EXPECT(std::fabs(y[i] - expected) <= 2e-6, "polynomial(%g) is %g", x[i], y[i]);
  }
  CHECK(cudaFree(device_x));
  CHECK(cudaFree(device_y));

  unsigned host_calls = 0;
  CHECK(cudaMemcpyFromSymbol(&host_calls, calls, sizeof(host_calls)));
  EXPECT(host_calls == kCount, "the counter is %u", host_calls);
  float back[2] = {};
  CHECK(cudaMemcpyFromSymbol(back, coefficients, sizeof(back), 3 * sizeof(float)));
  EXPECT(back[0] == 3.0f && back[1] == -0.25f, "constants came back as %g, %g", back[0], back[1]);

  double* device_out = nullptr;
  CHECK(cudaMalloc(&device_out, 2 * sizeof(double)));
  UseVariables<<<1, 64>>>(device_out);
  CHECK_LAUNCH();
  double out[2];
  CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
  EXPECT(out[0] == 2.5 * 0.125 + 7.0, "the variables gave %g", out[0]);
  EXPECT(out[1] == 11.0, "the text has %g characters", out[1]);
  CHECK(cudaFree(device_out));

  Settings host_settings;
  CHECK(cudaMemcpyFromSymbol(&host_settings, settings, sizeof(Settings)));
  EXPECT(host_settings.offset == 8, "settings.offset is %d", host_settings.offset);
  double host_scale = 0.0;
  CHECK(cudaMemcpyFromSymbol(&host_scale, scale_factor, sizeof(double)));
  EXPECT(host_scale == -1.0, "scale_factor is %g", host_scale);
  int host_table[4][8];
  CHECK(cudaMemcpyFromSymbol(host_table, table, sizeof(host_table)));
  for (int i = 0; i < 32; ++i) {
    const int initial = i < 3 ? i + 1 : i == 8 ? 4 : 0;
    EXPECT(host_table[i / 8][i % 8] == initial + i + 42, "table entry %d is %d", i,
           host_table[i / 8][i % 8]);
  }

  // Address and size of a variable. The address is usable like one from cudaMalloc.
  void* address = nullptr;
  size_t size = 0;
  CHECK(cudaGetSymbolAddress(&address, table));
  CHECK(cudaGetSymbolSize(&size, table));
  EXPECT(size == sizeof(host_table), "the table has %zu bytes", size);
  CHECK(cudaMemset(address, 0, size));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  const int entry = 99;
  CHECK(cudaMemcpyToSymbolAsync(table, &entry, sizeof(int), 5 * sizeof(int), cudaMemcpyHostToDevice,
                                stream));
  CHECK(cudaMemcpyFromSymbolAsync(host_table, table, sizeof(host_table), 0, cudaMemcpyDeviceToHost,
                                  stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  EXPECT(host_table[0][5] == 99 && host_table[0][4] == 0, "the table is %d, %d", host_table[0][5],
         host_table[0][4]);
  return failures;
}

// --- Templates, functors, lambdas ---------------------------------------------------------------

template <typename T, int kFactor>
struct ScaleBy {
  T bias;
  __host__ __device__ T operator()(T value) const { return value * kFactor + bias; }
};

struct Negate {
  template <typename T>
  __host__ __device__ T operator()(T value) const {
    return -value;
  }
};

template <typename T, typename Function>
__global__ void Apply(T* values, int count, Function function) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = function(values[i]);
}

template <typename T, typename Function>
int CheckApply(Function function, const char* name) {
  constexpr int kCount = 300;
  std::vector<T> values(kCount);
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(i * 3 - 100);
  T* device = nullptr;
  CHECK(cudaMalloc(&device, kCount * sizeof(T)));
  CHECK(cudaMemcpy(device, values.data(), kCount * sizeof(T), cudaMemcpyHostToDevice));
  Apply<<<(kCount + 63) / 64, 64>>>(device, kCount, function);
  CHECK_LAUNCH();
  std::vector<T> got(kCount);
  CHECK(cudaMemcpy(got.data(), device, kCount * sizeof(T), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  int failures = 0;
  for (int i = 0; i < kCount && failures < 5; ++i) {
    EXPECT(got[i] == function(values[i]), "%s at %d", name, i);
  }
  return failures;
}

int CheckTemplates() {
  return CheckApply<int>(ScaleBy<int, 3>{5}, "int") +
         CheckApply<float>(ScaleBy<float, 4>{0.5f}, "float") +
         CheckApply<double>(ScaleBy<double, -2>{0.25}, "double") +
         CheckApply<long long>(Negate{}, "long long") +
         CheckApply<int8_t>(ScaleBy<int8_t, 1>{1}, "int8_t") +
         CheckApply<uint16_t>(ScaleBy<uint16_t, 7>{9}, "uint16_t");
}

// --- Struct arguments --------------------------------------------------------------------------

struct Inner {
  char tag;
  short small;
  float3 vector;
};

// Fields of all alignments, a pointer and an array, passed by value between small arguments.
struct Arguments {
  unsigned char first;
  double weight;
  Inner inner[2];
  const int* values;
  float matrix[3][3];
  uint64_t big;
  bool flag;
};

struct Large {
  int numbers[900];  // 3,600 bytes; kernel arguments may have 4,096 in all
};

__global__ void TakeStruct(char before, Arguments arguments, short after, double* out) {
  double sum = before + after + arguments.first + arguments.weight;
  for (const Inner& inner : arguments.inner) {
    sum += inner.tag + inner.small + inner.vector.x + inner.vector.y * 10 + inner.vector.z * 100;
  }
  for (int i = 0; i < 4; ++i) sum += arguments.values[i];
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) sum += arguments.matrix[row][column];
  }
  out[0] = sum;
  out[1] = static_cast<double>(arguments.big >> 32);
  out[2] = arguments.flag ? 1.0 : 0.0;
}

__global__ void TakeLarge(Large large, int index, int* out) {
  int sum = 0;
  for (int i = threadIdx.x; i < 900; i += blockDim.x) sum += large.numbers[i];
  atomicAdd(&out[0], sum);
  if (threadIdx.x == 0) out[1] = large.numbers[index];
}

int CheckStructs() {
  const int host_values[4] = {1000, 2000, 3000, 4000};
  int* values = nullptr;
  double* out = nullptr;
  int* sums = nullptr;
  CHECK(cudaMalloc(&values, sizeof(host_values)));
  CHECK(cudaMalloc(&out, 3 * sizeof(double)));
  CHECK(cudaMalloc(&sums, 2 * sizeof(int)));
  CHECK(cudaMemcpy(values, host_values, sizeof(host_values), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(sums, 0, 2 * sizeof(int)));

  Arguments arguments = {};
  arguments.first = 200;
  arguments.weight = 0.5;
  arguments.inner[0] = {1, -300, {1.0f, 2.0f, 3.0f}};
  arguments.inner[1] = {2, 400, {4.0f, 5.0f, 6.0f}};
  arguments.values = values;
  for (int i = 0; i < 9; ++i) arguments.matrix[i / 3][i % 3] = static_cast<float>(i);
  arguments.big = 0x123456789abcdef0ull;
  arguments.flag = true;
  TakeStruct<<<1, 1>>>(-5, arguments, -1000, out);
  CHECK_LAUNCH();
  double got[3];
  CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));

  Large large;
  int expected_sum = 0;
  for (int i = 0; i < 900; ++i) {
    large.numbers[i] = i * i - 5000;
    expected_sum += large.numbers[i];
  }
  TakeLarge<<<1, 64>>>(large, 777, sums);
  CHECK_LAUNCH();
  int got_sums[2];
  CHECK(cudaMemcpy(got_sums, sums, sizeof(got_sums), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(values));
  CHECK(cudaFree(out));
  CHECK(cudaFree(sums));

  int failures = 0;
  // 10,000 of values, 36 of matrix, 321 + 654 of vectors, 1 - 300 + 2 + 400 of the small fields.
  const double expected = -5 - 1000 + 200 + 0.5 + 103 + 321 + 654 + 10000 + 36;
  EXPECT(got[0] == expected, "the struct gave %.3f, not %.3f", got[0], expected);
  EXPECT(got[1] == 0x12345678, "the 64-bit field gave %g", got[1]);
  EXPECT(got[2] == 1.0, "the flag gave %g", got[2]);
  EXPECT(got_sums[0] == expected_sum, "the large struct gave %d", got_sums[0]);
  EXPECT(got_sums[1] == 777 * 777 - 5000, "its element gave %d", got_sums[1]);
  return failures;
}

// --- Grids of three dimensions -----------------------------------------------------------------

__global__ void Coordinates(unsigned* out, uint3 extent) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= extent.x || y >= extent.y || z >= extent.z) return;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[(z * extent.y + y) * extent.x + x] =
      (x | y << 8 | z << 16) ^ (thread << 22) ^ (gridDim.x + gridDim.y + gridDim.z);
}

int CheckGrid() {
  const uint3 extent = make_uint3(19, 13, 7);
  const dim3 threads(5, 3, 2);
  const dim3 blocks(4, 5, 4);
  const size_t count = extent.x * extent.y * extent.z;
  unsigned* out = nullptr;
  CHECK(cudaMalloc(&out, count * sizeof(unsigned)));
  CHECK(cudaMemset(out, 0xee, count * sizeof(unsigned)));
  Coordinates<<<blocks, threads>>>(out, extent);
  CHECK_LAUNCH();
  std::vector<unsigned> got(count);
  CHECK(cudaMemcpy(got.data(), out, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(out));
  int failures = 0;
  for (unsigned i = 0; i < count && failures < 5; ++i) {
    const unsigned x = i % extent.x;
    const unsigned y = i / extent.x % extent.y;
    const unsigned z = i / extent.x / extent.y;
    const unsigned thread = ((z % 2) * 3 + y % 3) * 5 + x % 5;
    const unsigned expected = (x | y << 8 | z << 16) ^ (thread << 22) ^ 13u;
    EXPECT(got[i] == expected, "(%u, %u, %u) is %x, not %x", x, y, z, got[i], expected);
  }
  return failures;
}

// --- Shared memory -----------------------------------------------------------------------------

// Reverses `count` elements in each block with dynamic shared memory, and counts in static shared
// memory.
__global__ void ReverseInShared(int* values, int count) {
  extern __shared__ int buffer[];
  __shared__ int moved;
  if (threadIdx.x == 0) moved = 0;
  int* block_values = values + static_cast<size_t>(blockIdx.x) * (count + 1);
  for (int i = threadIdx.x; i < count; i += blockDim.x) buffer[i] = block_values[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    block_values[i] = buffer[count - 1 - i];
    atomicAdd(&moved, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) block_values[count] = moved;
}

int CheckReverse(int count, int blocks, int threads) {
  const size_t total = static_cast<size_t>(blocks) * (count + 1);
  std::vector<int> values(total);
  for (size_t i = 0; i < total; ++i) values[i] = static_cast<int>(i * 31);
  int* device = nullptr;
  CHECK(cudaMalloc(&device, total * sizeof(int)));
  CHECK(cudaMemcpy(device, values.data(), total * sizeof(int), cudaMemcpyHostToDevice));
  ReverseInShared<<<blocks, threads, count * sizeof(int)>>>(device, count);
  CHECK_LAUNCH();
  std::vector<int> got(total);
  CHECK(cudaMemcpy(got.data(), device, total * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  int failures = 0;
  for (int block = 0; block < blocks; ++block) {
    const int* before = &values[static_cast<size_t>(block) * (count + 1)];
    const int* after = &got[static_cast<size_t>(block) * (count + 1)];
    for (int i = 0; i < count && failures < 5; ++i) {
      EXPECT(after[i] == before[count - 1 - i], "block %d, element %d of %d", block, i, count);
    }
    EXPECT(after[count] == count, "block %d moved %d of %d", block, after[count], count);
  }
  return failures;
}

int CheckSharedMemory() {
  int failures = CheckReverse(1000, 3, 128);
  failures += CheckReverse(11 * 1024, 2, 256);  // 44 KiB: allowed without an attribute

  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, ReverseInShared));
  // One int, but with alignment: an image for a certain GPU may include the padding.
  EXPECT(attributes.sharedSizeBytes >= sizeof(int) && attributes.sharedSizeBytes <= 128,
         "static shared memory: %zu bytes", attributes.sharedSizeBytes);
  EXPECT(attributes.maxThreadsPerBlock >= 256 && attributes.maxThreadsPerBlock <= 1024,
         "maxThreadsPerBlock is %d", attributes.maxThreadsPerBlock);
  EXPECT(attributes.numRegs > 0, "numRegs is %d", attributes.numRegs);
  EXPECT(attributes.ptxVersion >= 50, "ptxVersion is %d", attributes.ptxVersion);

  // More than 48 KiB needs an attribute. The device reports its limit.
  int device = 0;
  int limit = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const int static_bytes = static_cast<int>(attributes.sharedSizeBytes);
  if (limit <= 48 * 1024 + static_bytes) return failures;
  const int count = (std::min(limit, 60 * 1024) - static_bytes) / static_cast<int>(sizeof(int));
  const int bytes = count * static_cast<int>(sizeof(int));
  CHECK(cudaFuncSetAttribute(ReverseInShared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  CHECK(cudaFuncGetAttributes(&attributes, ReverseInShared));
  EXPECT(attributes.maxDynamicSharedSizeBytes == bytes, "maxDynamicSharedSizeBytes is %d, not %d",
         attributes.maxDynamicSharedSizeBytes, bytes);
  return failures + CheckReverse(count, 2, 256);
}

int CheckOccupancy() {
  int failures = 0;
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Polynomial, 128, 0));
  EXPECT(blocks >= 1, "%d blocks of 128 threads fit", blocks);
  int grid = 0;
  int block = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, Polynomial, 0, 0));
  EXPECT(grid >= 1 && block >= 32 && block <= 1024, "suggested: %d blocks of %d", grid, block);
  return failures;
}

// --- Calls: function pointers, recursion, local arrays, 64-bit and narrow integers -------------

using Operation = int (*)(int, int);
__device__ __noinline__ int AddInts(int a, int b) { return a + b; }
__device__ __noinline__ int MultiplyInts(int a, int b) { return a * b; }
__device__ __noinline__ int SmallerInt(int a, int b) { return a < b ? a : b; }
__device__ Operation operations[3] = {AddInts, MultiplyInts, SmallerInt};

__device__ __noinline__ unsigned Fibonacci(unsigned n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}

__global__ void Calls(long long* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int digits[12];
  int number = 0;
  for (unsigned rest = i * 12345u + 1; rest != 0; rest /= 10) {
    digits[number++] = static_cast<int>(rest % 10);
  }
  long long reversed = 0;
  for (int k = 0; k < number; ++k) reversed = reversed * 10 + digits[k];
  // Lanes of one warp call different functions and recurse to different depths.
  out[i] = reversed * 1000 + operations[i % 3](i, 7) - Fibonacci(i % 9) + (reversed % 97) / 5;
}

int CheckCalls() {
  constexpr int kCount = 200;
  long long* out = nullptr;
  CHECK(cudaMalloc(&out, kCount * sizeof(long long)));
  Calls<<<4, 64>>>(out, kCount);
  CHECK_LAUNCH();
  std::vector<long long> got(kCount);
  CHECK(cudaMemcpy(got.data(), out, kCount * sizeof(long long), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(out));
  const unsigned fibonacci[9] = {0, 1, 1, 2, 3, 5, 8, 13, 21};
  int failures = 0;
  for (int i = 0; i < kCount && failures < 5; ++i) {
    long long reversed = 0;
    for (unsigned rest = i * 12345u + 1; rest != 0; rest /= 10)
      reversed = reversed * 10 + rest % 10;
    const int operation = i % 3 == 0 ? i + 7 : i % 3 == 1 ? i * 7 : std::min(i, 7);
    const long long expected = reversed * 1000 + operation - fibonacci[i % 9] + (reversed % 97) / 5;
    EXPECT(got[i] == expected, "thread %d gave %lld, not %lld", i, got[i], expected);
  }
  return failures;
}

}  // namespace

int main() {
  int failures = CheckVariables();
  failures += CheckTemplates();
  failures += CheckStructs();
  failures += CheckGrid();
  failures += CheckSharedMemory();
  failures += CheckOccupancy();
  failures += CheckCalls();
  std::printf("language_features: variables, templates, structs, grids, shared memory, calls: %s\n",
              Verdict(failures));
  return ExitStatus(failures);
}
