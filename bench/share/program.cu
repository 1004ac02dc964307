// A program sharing a GPU in `cuspan bench share`. Its kernels do a fixed amount of work, so an
// interrupted one takes longer. Prints "ready", and starts at a line on standard input.
//
//   calibrate                                      → NS_FOR_1000_ROUNDS BLOCKS SHARED_KIB
//   batch SECONDS BLOCKS ROUNDS PENDING KERNEL [KIB]
//                                                  → a line per 0.1 s: NS KERNELS
//   bursts BURSTS KERNELS GAP_MS BLOCKS ROUNDS     → a line each: MICROSECONDS
//   fills PART ROUNDS                              → SECONDS
//   beats BLOCKS ROUNDS PENDING                    → lines: FROM TO, until it is killed
//   free                                           → BYTES
//
// KERNEL multiply: ROUNDS rounds of multiplications, or a fixed number if ROUNDS is 0. KERNEL
// integers: the same with integer operations. KERNEL copy and sum: move 1 GiB of memory once.
//
// KIB: shared memory per block of `multiply`. BLOCKS 0: enough to fill the GPU. `fills` allocates
// PART of the GPU's memory and adds one to all of it in each round. It finally checks the contents.
// `beats` prints the ends of two consecutive kernels (ns, steady clock), for all pairs at least 1
// ms apart and some others. `free` prints the GPU's free memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/check_cuda.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kThreads = 256;
constexpr int kBlocksOfAProcessor = 8;

__global__ void Multiply(float* result, int rounds) {
  float a = static_cast<float>(threadIdx.x), b = 1.0F;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1.0001F + b;
    b = b * 0.9999F + a;
  }
  // Never true; otherwise the compiler would remove the loop.
  if (a == 12345.0F && b == 54321.0F) *result = a;
}

__global__ void Integers(float* result, int rounds) {
  unsigned a = threadIdx.x, b = 1;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1664525U + b;
    b = (b << 3 | b >> 29) ^ a;
  }
  if (a == 12345 && b == 54321) *result = static_cast<float>(a);
}

// Processes two arrays completely, with any grid.
__global__ void Copy(const float4* from, float4* to, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    to[i] = from[i];
}

__global__ void Sum(const float4* from, const float4* more, float* result, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  float sum = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const float4 a = from[i], b = more[i];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  if (sum == 12345.0F) *result = sum;
}

__global__ void AddOne(uint4* at, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    uint4 value = at[i];
    ++value.x, ++value.y, ++value.z, ++value.w;
    at[i] = value;
  }
}

__global__ void CountOthers(const uint4* at, std::size_t count, unsigned expected,
                            unsigned* others) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint4 value = at[i];
    if (value.x != expected || value.y != expected || value.z != expected || value.w != expected)
      atomicAdd(others, 1U);
  }
}

// About half a millisecond with two blocks per multiprocessor.
constexpr int kFixedRounds = 50'000;
// Far larger than a GPU's cache. Smaller if the CPU has to move it.
constexpr std::size_t kArrayBytes = std::size_t{512} << 20, kSmallArrayBytes = std::size_t{8} << 20;
constexpr std::size_t kSmallGpu = std::size_t{8} << 30;

float* g_result = nullptr;
float4* g_from = nullptr;
float4* g_to = nullptr;
std::size_t g_array_bytes = kArrayBytes;
std::string g_kernel = "multiply";
int g_filling_blocks = 0;
int g_shared_bytes = 0;

void Launch(int blocks, int rounds) {
  if (blocks == 0) blocks = g_filling_blocks;
  if (rounds == 0) rounds = kFixedRounds;
  const std::size_t count = g_array_bytes / sizeof(float4);
  if (g_kernel == "copy")
    Copy<<<blocks, kThreads>>>(g_from, g_to, count);
  else if (g_kernel == "sum")
    Sum<<<blocks, kThreads>>>(g_from, g_to, g_result, count);
  else if (g_kernel == "integers")
    Integers<<<blocks, kThreads>>>(g_result, rounds);
  else
    Multiply<<<blocks, kThreads, g_shared_bytes>>>(g_result, rounds);
}

void AwaitGo() {
  std::puts("ready");
  std::fflush(stdout);
  char line[16];
  if (std::fgets(line, sizeof line, stdin) == nullptr) std::exit(3);
}

double MillisecondsOf(int blocks, int rounds) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  float least = 1e9F;
  for (int i = 0; i < 20; ++i) {
    CHECK(cudaEventRecord(begin));
    Launch(blocks, rounds);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float passed = 0;
    CHECK(cudaEventElapsedTime(&passed, begin, end));
    if (passed < least) least = passed;
  }
  return least;
}

void Calibrate() {
  // Work raises the GPU's clock first.
  for (int i = 0; i < 200; ++i) Launch(0, 20'000);
  CHECK(cudaDeviceSynchronize());
  // The difference removes the launch overhead.
  const double few = MillisecondsOf(0, 20'000), many = MillisecondsOf(0, 220'000);
  int shared_bytes = 0;
  CHECK(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  std::printf("%.3f %d %d\n", (many - few) * 1e6 / 200, g_filling_blocks, shared_bytes / 1024);
}

void Batch(double seconds, int blocks, int rounds, int pending) {
  std::vector<cudaEvent_t> ends(pending);
  for (cudaEvent_t& end : ends) CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  Launch(blocks, rounds);
  CHECK(cudaDeviceSynchronize());
  AwaitGo();
  const Clock::time_point begin = Clock::now();
  Clock::time_point told = begin;
  long done = 0;
  for (int launched = 0;; ++launched) {
    cudaEvent_t& end = ends[launched % pending];
    if (launched >= pending) {
      CHECK(cudaEventSynchronize(end));
      ++done;
    }
    const Clock::time_point now = Clock::now();
    if (now - told >= std::chrono::milliseconds(100)) {
      told = now;
      std::printf("%lld %ld\n", static_cast<long long>((now - begin).count()), done);
      std::fflush(stdout);
    }
    if (std::chrono::duration<double>(now - begin).count() >= seconds) break;
    Launch(blocks, rounds);
    CHECK(cudaEventRecord(end));
  }
  CHECK(cudaDeviceSynchronize());
}

[[noreturn]] void Beats(int blocks, int rounds, int pending) {
  constexpr auto kApart = std::chrono::milliseconds(1), kSilence = std::chrono::milliseconds(20);
  std::vector<cudaEvent_t> ends(pending);
  for (cudaEvent_t& end : ends) CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  AwaitGo();
  Clock::time_point last = Clock::now(), told = last;
  for (int launched = 0;; ++launched) {
    cudaEvent_t& end = ends[launched % pending];
    if (launched >= pending) {
      CHECK(cudaEventSynchronize(end));
      const Clock::time_point now = Clock::now();
      if (now - last >= kApart || now - told >= kSilence) {
        std::printf("%lld %lld\n", static_cast<long long>(last.time_since_epoch().count()),
                    static_cast<long long>(now.time_since_epoch().count()));
        std::fflush(stdout);
        told = now;
      }
      last = now;
    }
    Launch(blocks, rounds);
    CHECK(cudaEventRecord(end));
  }
}

void Bursts(int bursts, int kernels, int gap, int blocks, int rounds) {
  for (int i = 0; i < 10; ++i) Launch(blocks, rounds);
  CHECK(cudaDeviceSynchronize());
  AwaitGo();
  std::vector<double> took;
  for (int burst = 0; burst < bursts; ++burst) {
    std::this_thread::sleep_for(std::chrono::milliseconds(gap));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kernels; ++i) Launch(blocks, rounds);
    CHECK(cudaDeviceSynchronize());
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  for (const double one : took) std::printf("%.1f\n", one);
}

// Allocates in pieces, like typical programs. True if the contents are correct.
bool Fills(double part, int rounds, std::size_t gpu_bytes) {
  constexpr std::size_t kArrays = 16, kGranularity = std::size_t{2} << 20;
  const std::size_t bytes = static_cast<std::size_t>(static_cast<double>(gpu_bytes) * part) /
                            kArrays / kGranularity * kGranularity;
  const std::size_t count = bytes / sizeof(uint4);
  std::vector<uint4*> arrays(kArrays);
  for (uint4*& array : arrays) {
    CHECK(cudaMalloc(&array, bytes));
    CHECK(cudaMemset(array, 0, bytes));
  }
  unsigned* others = nullptr;
  CHECK(cudaMalloc(&others, sizeof *others));
  CHECK(cudaMemset(others, 0, sizeof *others));
  AwaitGo();
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (uint4* array : arrays) AddOne<<<g_filling_blocks, kThreads>>>(array, count);
    // Like a program checking its progress.
    if (round % 8 == 7) CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%.3f\n", std::chrono::duration<double>(Clock::now() - begin).count());
  for (const uint4* array : arrays)
    CountOthers<<<g_filling_blocks, kThreads>>>(array, count, static_cast<unsigned>(rounds),
                                                others);
  unsigned found = 0;
  CHECK(cudaMemcpy(&found, others, sizeof found, cudaMemcpyDeviceToHost));
  if (found != 0) std::fprintf(stderr, "%u pieces of the memory are wrong\n", found);
  return found == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return argc > at ? std::atof(argv[at]) : 0.0; };
  const auto whole = [&](int at) { return static_cast<int>(number(at)); };
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  g_filling_blocks = properties.multiProcessorCount * kBlocksOfAProcessor;
  CHECK(cudaMalloc(&g_result, sizeof *g_result));
  if (properties.totalGlobalMem < kSmallGpu) g_array_bytes = kSmallArrayBytes;
  if (argc > 6 && role == "batch") g_kernel = argv[6];
  if (argc > 7 && role == "batch") {
    g_shared_bytes = whole(7) * 1024;
    CHECK(cudaFuncSetAttribute(Multiply, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               g_shared_bytes));
  }
  if (g_kernel == "copy" || g_kernel == "sum") {
    for (float4** array : {&g_from, &g_to}) {
      CHECK(cudaMalloc(array, g_array_bytes));
      CHECK(cudaMemset(*array, 0, g_array_bytes));
    }
  }
  if (role == "calibrate") {
    Calibrate();
  } else if (role == "batch" && whole(5) > 0) {
    Batch(number(2), whole(3), whole(4), whole(5));
  } else if (role == "bursts") {
    Bursts(whole(2), whole(3), whole(4), whole(5), whole(6));
  } else if (role == "beats" && whole(4) > 0) {
    Beats(whole(2), whole(3), whole(4));
  } else if (role == "free") {
    std::size_t free_bytes = 0, total_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    std::printf("%zu\n", free_bytes);
  } else if (role == "fills") {
    if (!Fills(number(2), whole(3), properties.totalGlobalMem)) return 1;
  } else {
    std::fputs("started by cuspan bench share\n", stderr);
    return 2;
  }
  return 0;
}
