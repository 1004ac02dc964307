// Misaligned accesses: each ends its kernel with cudaErrorMisalignedAddress, for any pattern of
// addresses and any memory. Threads not participating may have misaligned addresses. The error may
// cost the process the device (CUDA: "the process must be terminated and relaunched"), so each such
// access has its own process.
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "check.h"

namespace {

int failures = 0;

constexpr int kThreads = 64;
constexpr int kBytes = 64 * 1024;

enum Pattern { kSame, kNeighbours, kFarApart, kByTable, kOne, kNone };
enum Operation { kLoad, kStore, kAdd };
// Local memory is used for aligned accesses only. A compiler may put local variables into
// registers, without misaligned accesses.
enum Home { kGlobal, kShared, kLocal };

__device__ int Thread() { return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); }

// Offset of the thread's access. All threads are off by `shift`, or only one (kOne). With kNone,
// this one does not participate.
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

// Expects success.
template <typename T>
void Right(const char* what, Home home, Pattern pattern, Operation operation, int shift,
           dim3 block = dim3(kThreads)) {
  Launch<T>(home, pattern, operation, shift, block);
  const cudaError_t error = cudaDeviceSynchronize();
  EXPECT(error == cudaSuccess, "%s, off by %d: %s", what, shift, cudaGetErrorName(error));
}

// Expects failure, in a separate process.
template <typename T>
void Wrong(const char* what, Home home, Pattern pattern, Operation operation, int shift,
           dim3 block = dim3(kThreads)) {
  const pid_t child = fork();
  if (child == 0) {
    memory.Make();
    Launch<T>(home, pattern, operation, shift, block);
    const cudaError_t error = cudaDeviceSynchronize();
    EXPECT(error == cudaErrorMisalignedAddress, "%s, off by %d: %s", what, shift,
           cudaGetErrorName(error));
    EXPECT(cudaMemset(memory.bytes, 0, 1) == cudaErrorMisalignedAddress,
           "%s: the error does not stay", what);
    std::exit(failures);
  }
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0, "%s: status %d", what,
         status);
}

}  // namespace

int main() {
  const dim3 rows(8, 8);
  // Those with separate processes come first: a process must not fork after using CUDA.
  Wrong<int>("the same int", kGlobal, kSame, kLoad, 2);
  Wrong<double>("neighbouring doubles", kGlobal, kNeighbours, kStore, 4);
  Wrong<float>("rows of floats", kGlobal, kNeighbours, kStore, 2, rows);
  Wrong<float4>("float4 far apart", kGlobal, kFarApart, kLoad, 8);
  Wrong<short>("shorts by a table", kGlobal, kByTable, kLoad, 1);
  Wrong<double>("one of the doubles, in rows", kGlobal, kOne, kStore, 4, rows);
  Wrong<int>("shared neighbours", kShared, kNeighbours, kStore, 2);
  Wrong<float4>("shared by a table", kShared, kByTable, kLoad, 8);
  Wrong<int>("an atomic", kGlobal, kByTable, kAdd, 2);

  // Aligned accesses work, and so do misaligned addresses in a thread not participating.
  memory.Make();
  Right<int>("int", kGlobal, kNeighbours, kStore, 4);
  Right<double>("double", kGlobal, kByTable, kLoad, 8);
  Right<float4>("float4", kGlobal, kFarApart, kLoad, 16, rows);
  Right<float4>("float4", kShared, kByTable, kStore, 16);
  Right<short>("short", kGlobal, kByTable, kStore, 2);
  Right<char>("char", kGlobal, kByTable, kStore, 1);
  Right<int>("int in one thread that returns", kGlobal, kNone, kStore, 1);
  Right<int>("int in one thread that returns", kShared, kNone, kLoad, 2, rows);
  Right<int>("atomic in one thread that returns", kGlobal, kNone, kAdd, 2);
  Right<float2>("local float2", kLocal, kSame, kLoad, 8);

  std::puts(failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
