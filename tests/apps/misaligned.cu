// Accesses at addresses that are no multiple of what is accessed: each ends its kernel with
// cudaErrorMisalignedAddress, whatever the pattern of the addresses and wherever they point;
// threads that do not take part may have such addresses.
#include <cstdint>
#include <vector>

#include "check.h"

namespace {

int failures = 0;

constexpr int kThreads = 64;
constexpr int kBytes = 64 * 1024;

enum Pattern { kSame, kNeighbours, kFarApart, kByTable, kOne, kNone };
enum Operation { kLoad, kStore, kAdd };
enum Home { kGlobal, kShared, kLocal };

__device__ int Thread() { return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); }

// Where the thread accesses a T: everybody is off by `shift`, or one of them (kOne), who does not
// take part in kNone.
template <typename T>
__device__ long long Place(Pattern pattern, int shift, const int* table) {
  const int thread = Thread();
  const long long bytes = sizeof(T);
  switch (pattern) {
    case kSame:
      return shift;
    case kNeighbours:
      return thread * bytes + shift;
    case kFarApart:
      return thread * 3 * bytes + shift;
    case kByTable:
      return table[thread] * bytes + shift;
    default:
      return thread * bytes + (thread == 5 ? shift : 0);
  }
}

template <typename T>
__device__ void Access(char* at, Operation operation, const T& value, T* result) {
  T* const place = reinterpret_cast<T*>(at);
  if (operation == kLoad) {
    *result = *place;
  } else {
    *place = value;
  }
}

template <typename T>
__global__ void Global(char* memory, Pattern pattern, Operation operation, int shift,
                       const int* table, T value, T* results) {
  if (pattern == kNone && Thread() == 5) return;
  Access(memory + Place<T>(pattern, shift, table), operation, value, results + Thread());
}

template <typename T>
__global__ void Shared(Pattern pattern, Operation operation, int shift, const int* table, T value,
                       T* results) {
  __shared__ __align__(16) char memory[16 * 1024];
  for (int i = Thread(); i < 16 * 1024; i += kThreads) memory[i] = 0;
  __syncthreads();
  if (pattern == kNone && Thread() == 5) return;
  Access(memory + Place<T>(pattern, shift, table), operation, value, results + Thread());
}

template <typename T>
__global__ void Local(Operation operation, int shift, const int* table, T value, T* results) {
  char memory[256];
  for (int i = 0; i < 256; ++i) memory[i] = static_cast<char>(table[i % kThreads]);
  Access(memory + 16 * (table[0] % 2) + shift, operation, value, results + Thread());
  results[Thread() + kThreads] = *reinterpret_cast<T*>(memory + 16);
}

__global__ void Add(char* memory, Pattern pattern, int shift, const int* table) {
  if (pattern == kNone && Thread() == 5) return;
  atomicAdd(reinterpret_cast<int*>(memory + Place<int>(pattern, shift, table)), 1);
}

struct Memory {
  char* bytes = nullptr;
  int* table = nullptr;
  void* results = nullptr;

  void Make() {
    CHECK(cudaMalloc(&bytes, kBytes));
    CHECK(cudaMemset(bytes, 0, kBytes));
    CHECK(cudaMalloc(&table, kThreads * sizeof(int)));
    CHECK(cudaMalloc(&results, 2 * kThreads * 16));
    std::vector<int> places(kThreads);
    for (int i = 0; i < kThreads; ++i) places[i] = (i * 37 + 11) % 191;
    CHECK(cudaMemcpy(table, places.data(), kThreads * sizeof(int), cudaMemcpyHostToDevice));
  }
};

Memory memory;

template <typename T>
void Launch(Home home, Pattern pattern, Operation operation, int shift, dim3 block) {
  T* const results = static_cast<T*>(memory.results);
  const T value{};
  if (home == kGlobal) {
    if (operation == kAdd) {
      Add<<<1, block>>>(memory.bytes, pattern, shift, memory.table);
    } else {
      Global<T>
          <<<1, block>>>(memory.bytes, pattern, operation, shift, memory.table, value, results);
    }
  } else if (home == kShared) {
    Shared<T><<<1, block>>>(pattern, operation, shift, memory.table, value, results);
  } else {
    Local<T><<<1, block>>>(operation, shift, memory.table, value, results);
  }
  CHECK_LAUNCH();
}

// The launch fails if `fails`, with the error that stays until the device is reset.
template <typename T>
void Try(const char* what, bool fails, Home home, Pattern pattern, Operation operation, int shift,
         dim3 block = dim3(kThreads)) {
  Launch<T>(home, pattern, operation, shift, block);
  const cudaError_t error = cudaDeviceSynchronize();
  EXPECT(error == (fails ? cudaErrorMisalignedAddress : cudaSuccess), "%s, off by %d: %s", what,
         shift, cudaGetErrorName(error));
  if (error == cudaSuccess) return;
  cudaGetLastError();
  CHECK(cudaDeviceReset());
  memory.Make();
}

}  // namespace

int main() {
  memory.Make();
  const dim3 rows(8, 8);
  // What is aligned, or off in a thread that does not take part, works.
  Try<int>("int", false, kGlobal, kNeighbours, kStore, 4);
  Try<double>("double", false, kGlobal, kByTable, kLoad, 8);
  Try<float4>("float4", false, kGlobal, kFarApart, kLoad, 16, rows);
  Try<float4>("float4", false, kShared, kByTable, kStore, 16);
  Try<short>("short", false, kGlobal, kByTable, kStore, 2);
  Try<char>("char", false, kGlobal, kByTable, kStore, 1);
  Try<int>("int in one thread that returns", false, kGlobal, kNone, kStore, 1);
  Try<int>("int in one thread that returns", false, kShared, kNone, kLoad, 2, rows);
  Try<int>("atomic in one thread that returns", false, kGlobal, kNone, kAdd, 2);
  Try<float2>("local float2", false, kLocal, kSame, kLoad, 8);

  Try<int>("the same int", true, kGlobal, kSame, kLoad, 2);
  Try<double>("the same double", true, kGlobal, kSame, kStore, 4);
  Try<int>("neighbouring ints", true, kGlobal, kNeighbours, kLoad, 1);
  Try<double>("neighbouring doubles", true, kGlobal, kNeighbours, kStore, 4);
  Try<float>("rows of floats", true, kGlobal, kNeighbours, kStore, 2, rows);
  Try<float4>("float4 far apart", true, kGlobal, kFarApart, kLoad, 8);
  Try<short>("shorts by a table", true, kGlobal, kByTable, kLoad, 1);
  Try<float2>("float2 by a table", true, kGlobal, kByTable, kStore, 4);
  Try<int>("one of the ints", true, kGlobal, kOne, kLoad, 2);
  Try<double>("one of the doubles, in rows", true, kGlobal, kOne, kStore, 4, rows);
  Try<int>("shared neighbours", true, kShared, kNeighbours, kStore, 2);
  Try<float4>("shared by a table", true, kShared, kByTable, kLoad, 8);
  Try<int>("one shared int", true, kShared, kOne, kLoad, 1);
  Try<float2>("local float2", true, kLocal, kSame, kLoad, 4);
  Try<int>("an atomic", true, kGlobal, kByTable, kAdd, 2);

  std::puts(failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
