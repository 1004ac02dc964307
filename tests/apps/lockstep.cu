// Kernels with warps exchanging data through memory without __syncwarp, like programs from before
// independent thread scheduling. GPUs reconverge the lanes of a warp after a divergent branch. Each
// result is compared with the host's.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kAll = ~0u;
constexpr int kThreads = 64;

// --- Exchanges between two statements

__global__ void Broadcast(int* out, int value) {
  __shared__ volatile int cells[kThreads];
  cells[threadIdx.x] = value + static_cast<int>(threadIdx.x);
  out[threadIdx.x] = cells[(threadIdx.x & 32) + 31];
}

__global__ void Mirror(int* out, int value) {
  __shared__ volatile int cells[8][8];
  cells[threadIdx.y][threadIdx.x] = value + static_cast<int>(threadIdx.y * 8 + threadIdx.x);
  out[threadIdx.y * 8 + threadIdx.x] = cells[threadIdx.y ^ 1][7 - threadIdx.x];
}

// Lanes in turn write one value read by all. Without reconvergence, the next lane would overwrite
// it before all have read it.
__global__ void Relay(int* out, int value) {
  extern __shared__ volatile int dynamic[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < 32; ++round) {
    if (lane == round) dynamic[warp] = value + round * (warp + 1);
    sum += dynamic[warp];
  }
  out[threadIdx.x] = sum;
}

__device__ __noinline__ void Put(volatile int* cell, int value) { *cell = value; }
__device__ __noinline__ int Get(const volatile int* cell) { return *cell; }

__global__ void ByFunctions(int* out, int value) {
  __shared__ volatile int cells[kThreads];
  Put(&cells[threadIdx.x], value * static_cast<int>(threadIdx.x));
  out[threadIdx.x] = Get(&cells[threadIdx.x ^ 31]);
}

__global__ void ByGlobalMemory(volatile int* out, int value) {
  out[threadIdx.x] = value + static_cast<int>(threadIdx.x);
  const int other = out[threadIdx.x ^ 5];
  out[threadIdx.x] = other * 3;
}

// --- Loops

__global__ void Scan(int* out, int value) {
  __shared__ volatile int cells[kThreads];
  const int lane = threadIdx.x & 31;
  cells[threadIdx.x] = value + static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int step = 1; step < 32; step *= 2)
    if (lane >= step) cells[threadIdx.x] = cells[threadIdx.x] + cells[threadIdx.x - step];
  out[threadIdx.x] = cells[threadIdx.x];
}

__global__ void Sum(int* out, int value) {
  __shared__ volatile int cells[kThreads];
  cells[threadIdx.x] = value * static_cast<int>(threadIdx.x + 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    cells[threadIdx.x] += cells[threadIdx.x + 32];
    for (int step = 16; step != 0; step /= 2)
      if (static_cast<int>(threadIdx.x) < step) cells[threadIdx.x] += cells[threadIdx.x + step];
  }
  __syncthreads();
  out[threadIdx.x] = cells[0] + static_cast<int>(threadIdx.x);
}

// Lanes leave the inner loop at different iterations.
__global__ void Uneven(int* out, int value) {
  __shared__ int cells[kThreads];
  const int lane = threadIdx.x & 31;
  int sum = 0;
  for (int round = 0; round < 5; ++round) {
    int steps = 0;
    for (int at = lane * 7 + round + value; at % 11 != 0; ++at) ++steps;
    cells[threadIdx.x] = steps * (round + 1);
    sum = sum * 3 + cells[threadIdx.x ^ 1] + cells[(threadIdx.x & 32) + ((lane + round) & 31)];
  }
  out[threadIdx.x] = sum;
}

// Some lanes skip the exchange of a round.
__global__ void Skipping(int* out, int value) {
  __shared__ volatile int cells[kThreads];
  const int lane = threadIdx.x & 31;
  cells[threadIdx.x] = 0;
  int sum = 0;
  for (int round = 0; round < 8; ++round) {
    if ((lane + round) % 3 == 0) continue;
    cells[threadIdx.x] = value + round * 100 + lane;
    sum += cells[(threadIdx.x & 32) + ((lane + 1) & 31)];
  }
  out[threadIdx.x] = sum;
}

struct Kernel {
  const char* name;
  void (*launch)(int*, int);
  // Value written by thread `i`.
  int (*expected)(int i, int value);
};

template <void (*kKernel)(int*, int)>
void LaunchFlat(int* out, int value) {
  kKernel<<<1, kThreads, 2 * sizeof(int)>>>(out, value);
}

int ScanOf(int i, int value) {
  int sum = 0;
  for (int k = i & 32; k <= i; ++k) sum += value + k;
  return sum;
}

int UnevenOf(int i, int value) {
  const auto cell = [value](int lane, int round) {
    int steps = 0;
    for (int at = lane * 7 + round + value; at % 11 != 0; ++at) ++steps;
    return steps * (round + 1);
  };
  const int lane = i & 31;
  int sum = 0;
  for (int round = 0; round < 5; ++round)
    sum = sum * 3 + cell(lane ^ 1, round) + cell((lane + round) & 31, round);
  return sum;
}

int SkippingOf(int i, int value) {
  int cells[32] = {}, sums[32] = {};
  for (int round = 0; round < 8; ++round) {
    for (int lane = 0; lane < 32; ++lane)
      if ((lane + round) % 3 != 0) cells[lane] = value + round * 100 + lane;
    for (int lane = 0; lane < 32; ++lane)
      if ((lane + round) % 3 != 0) sums[lane] += cells[(lane + 1) & 31];
  }
  return sums[i & 31];
}

const Kernel kKernels[] = {
    {"Broadcast", LaunchFlat<Broadcast>, [](int i, int value) { return value + (i & 32) + 31; }},
    {"Mirror", [](int* out, int value) { Mirror<<<1, dim3(8, 8)>>>(out, value); },
     [](int i, int value) { return value + (i / 8 ^ 1) * 8 + 7 - i % 8; }},
    {"Relay", LaunchFlat<Relay>,
     [](int i, int value) { return 32 * value + 31 * 16 * (i / 32 + 1); }},
    {"ByFunctions", LaunchFlat<ByFunctions>, [](int i, int value) { return value * (i ^ 31); }},
    {"ByGlobalMemory", [](int* out, int value) { ByGlobalMemory<<<1, kThreads>>>(out, value); },
     [](int i, int value) { return 3 * (value + (i ^ 5)); }},
    {"Scan", LaunchFlat<Scan>, ScanOf},
    {"Sum", LaunchFlat<Sum>,
     [](int i, int value) { return value * kThreads * (kThreads + 1) / 2 + i; }},
    {"Uneven", LaunchFlat<Uneven>, UnevenOf},
    {"Skipping", LaunchFlat<Skipping>, SkippingOf},
};

// Runs twice, because the second launch sees the shared memory of the first.
int CheckKernel(const Kernel& kernel) {
  int failures = 0;
  int* out = nullptr;
  CHECK(cudaMalloc(&out, kThreads * sizeof(int)));
  for (const int value : {11, 22}) {
    std::vector<int> found(kThreads);
    CHECK(cudaMemset(out, 0xff, kThreads * sizeof(int)));
    kernel.launch(out, value);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(found.data(), out, kThreads * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < kThreads && failures < 5; ++i) {
      const int expected = kernel.expected(i, value);
      EXPECT(found[i] == expected, "%s: thread %d wrote %d instead of %d", kernel.name, i, found[i],
             expected);
    }
  }
  CHECK(cudaFree(out));
  return failures;
}

// --- Lists of neighbours

constexpr int kRows = 64, kSkipped = 40, kWarps = 8, kCandidates = 256;

// Each warp lists a row's candidates, and empties the list 32 entries at a time. The sum of removed
// entries goes to `out`, and `counter` counts the removals.
__global__ void MakeLists(const int* first, const int* items, int rows, int* out,
                          unsigned* counter) {
  __shared__ int lists[64 * kWarps], skips[64 * kWarps];
  __shared__ volatile unsigned tickets[kWarps];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int* const list = lists + 64 * warp;
  int* const skip = skips + 64 * warp;
  for (int row = blockIdx.x * kWarps + warp; row < rows; row += gridDim.x * kWarps) {
    const int start = first[row], count = first[row + 1] - start;
    int found = 0;
    for (int j = lane; j < count; j += 32) skip[j] = items[start + j];
    for (int base = 0; base < kCandidates; base += 32) {
      bool mine = ((base + lane) * 7 + row) % 5 != 0;
      for (int j = 0; j < count; ++j) mine &= skip[j] != base + lane;
      const unsigned members = __ballot_sync(kAll, mine);
      if (mine) list[found + __popc(members & ((1u << lane) - 1))] = base + lane;
      found += __popc(members);
      if (found >= 32) {
        if (lane == 0) tickets[warp] = atomicAdd(counter, 1u);
        if (tickets[warp] < 100000) atomicAdd(out + row, list[31 - lane]);
        list[lane] = list[lane + 32];
        found -= 32;
      }
    }
  }
}

int CheckLists() {
  std::vector<int> first(kRows + 1), items(kRows * kSkipped), expected(kRows), found(kRows);
  unsigned expected_tickets = 0, tickets = 0;
  for (int row = 0; row <= kRows; ++row) first[row] = row * kSkipped;
  for (int i = 0; i < kRows * kSkipped; ++i)
    items[i] = (i % kSkipped * 6 + i / kSkipped) % kCandidates;
  for (int row = 0; row < kRows; ++row) {
    std::vector<int> list;
    for (int candidate = 0; candidate < kCandidates; ++candidate) {
      const auto begin = items.begin() + first[row], end = items.begin() + first[row + 1];
      if ((candidate * 7 + row) % 5 != 0 && std::find(begin, end, candidate) == end)
        list.push_back(candidate);
    }
    const size_t full = list.size() / 32;
    expected_tickets += static_cast<unsigned>(full);
    for (size_t i = 0; i < full * 32; ++i) expected[row] += list[i];
  }
  int *device_first = nullptr, *device_items = nullptr, *device_out = nullptr;
  unsigned* device_counter = nullptr;
  CHECK(cudaMalloc(&device_first, first.size() * sizeof(int)));
  CHECK(cudaMalloc(&device_items, items.size() * sizeof(int)));
  CHECK(cudaMalloc(&device_out, kRows * sizeof(int)));
  CHECK(cudaMalloc(&device_counter, sizeof(unsigned)));
  CHECK(cudaMemcpy(device_first, first.data(), first.size() * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(device_items, items.data(), items.size() * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemset(device_out, 0, kRows * sizeof(int)));
  CHECK(cudaMemset(device_counter, 0, sizeof(unsigned)));
  MakeLists<<<2, 32 * kWarps>>>(device_first, device_items, kRows, device_out, device_counter);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(found.data(), device_out, kRows * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(&tickets, device_counter, sizeof tickets, cudaMemcpyDefault));
  int failures = 0;
  EXPECT(tickets == expected_tickets, "%u lists instead of %u", tickets, expected_tickets);
  for (int row = 0; row < kRows && failures < 5; ++row)
    EXPECT(found[row] == expected[row], "row %d has %d instead of %d", row, found[row],
           expected[row]);
  for (void* memory : {static_cast<void*>(device_first), static_cast<void*>(device_items),
                       static_cast<void*>(device_out), static_cast<void*>(device_counter)})
    CHECK(cudaFree(memory));
  return failures;
}

}  // namespace

int main() {
  int failures = CheckLists();
  for (const Kernel& kernel : kKernels) failures += CheckKernel(kernel);
  std::printf("lockstep: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
