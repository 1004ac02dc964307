// Managed memory used by host and kernels at the same time, on devices with
// concurrentManagedAccess: atomic operations of both on one word, and kernels and a host waiting
// for each other. Uses allocated memory and __managed__ variables. Other devices run alternately
// only.
//
//   managed_concurrent [ADDITIONS]
//
// Prints the attribute.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "check.h"

namespace {

constexpr int kBlocks = 8, kThreads = 64;

struct Counters {
  int whole;
  unsigned long long wide;
  int largest;
  int swaps;
};

__managed__ Counters g_counters = {1000, 5000000000ULL, -1, 0};
__managed__ int g_question;
__managed__ int g_answer = 7;
__managed__ void* g_where;

__global__ void Count(Counters* counters, int additions) {
  const int me = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = 0; i < additions; ++i) {
    atomicAdd_system(&counters->whole, 1);
    atomicAdd_system(&counters->wide, 3ULL);
    atomicMax_system(&counters->largest, me + i);
    int seen = counters->swaps;
    for (;;) {
      const int before = atomicCAS_system(&counters->swaps, seen, seen + 2);
      if (before == seen) break;
      seen = before;
    }
  }
}

// Uses the variable by its name.
__global__ void CountByName(int additions) {
  for (int i = 0; i < additions; ++i) {
    atomicAdd_system(&g_counters.whole, 1);
    atomicAdd_system(&g_counters.wide, 3ULL);
  }
}

__global__ void TellWhere() { g_where = &g_counters; }

__global__ void AnswerAll(volatile int* question, volatile int* answer, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    while (*question < round) {
    }
    *answer = 2 * round;
    __threadfence_system();
  }
}

__global__ void AnswerByName(int rounds) {
  volatile int* const question = &g_question;
  volatile int* const answer = &g_answer;
  for (int round = 1; round <= rounds; ++round) {
    while (*question < round) {
    }
    *answer = 2 * round;
    __threadfence_system();
  }
}

template <typename T>
std::atomic<T>& Shared(T& value) {
  static_assert(sizeof(std::atomic<T>) == sizeof(T));
  return reinterpret_cast<std::atomic<T>&>(value);
}

// Adds once to each counter, for the host.
void AddOnce(Counters& counters) {
  Shared(counters.whole).fetch_add(1);
  Shared(counters.wide).fetch_add(3);
  int seen = Shared(counters.swaps).load();
  while (!Shared(counters.swaps).compare_exchange_weak(seen, seen + 2)) {
  }
}

// `kernel()` starts `threads` threads with `additions` additions each. The host adds meanwhile.
template <typename Kernel>
int CheckCounters(const char* what, Counters& counters, int additions, bool meanwhile,
                  Kernel&& kernel) {
  int failures = 0;
  const Counters start = counters;
  const long long threads = kBlocks * kThreads;
  long long host = 0;
  kernel();
  CHECK_LAUNCH();
  while (meanwhile && (cudaStreamQuery(nullptr) == cudaErrorNotReady || host < additions)) {
    for (int i = 0; i < 100; ++i, ++host) AddOnce(counters);
  }
  CHECK(cudaDeviceSynchronize());
  const long long total = threads * additions + host;
  EXPECT(counters.whole - start.whole == static_cast<int>(total), "%s: %d of %lld additions", what,
         counters.whole - start.whole, total);
  EXPECT(counters.wide - start.wide == 3ULL * static_cast<unsigned long long>(total),
         "%s: %llu of %lld by three", what, counters.wide - start.wide, 3 * total);
  return failures;
}

int CheckRounds(const char* what, volatile int* question, volatile int* answer, int rounds) {
  int failures = 0;
  for (int round = 1; round <= rounds; ++round) {
    *question = round;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    while (*answer != 2 * round) {
    }
  }
  CHECK(cudaDeviceSynchronize());
  EXPECT(*answer == 2 * rounds, "%s: the last answer is %d", what, *answer);
  return failures;
}

int CheckConcurrent(int additions) {
  int failures = 0;
  Counters* counters = nullptr;
  CHECK(cudaMallocManaged(&counters, sizeof *counters));
  *counters = {0, 0, -1, 0};
  failures += CheckCounters("allocated memory", *counters, additions, true,
                            [&] { Count<<<kBlocks, kThreads>>>(counters, additions); });
  const int threads = kBlocks * kThreads;
  EXPECT(counters->largest == threads - 1 + additions - 1, "the largest is %d", counters->largest);
  EXPECT(counters->swaps == 2 * counters->whole, "%d by exchange, %d additions", counters->swaps,
         counters->whole);
  CHECK(cudaFree(counters));

  failures += CheckCounters("a variable's address", g_counters, additions, true,
                            [&] { Count<<<kBlocks, kThreads>>>(&g_counters, additions); });
  failures += CheckCounters("a variable by name", g_counters, additions, true,
                            [&] { CountByName<<<kBlocks, kThreads>>>(additions); });

  int* words = nullptr;
  CHECK(cudaMallocManaged(&words, 2 * sizeof(int)));
  words[0] = words[1] = 0;
  AnswerAll<<<1, 1>>>(words, words + 1, 100);
  failures += CheckRounds("allocated memory", words, words + 1, 100);
  CHECK(cudaFree(words));
  AnswerByName<<<1, 1>>>(100);
  failures += CheckRounds("a variable by name", &g_question, &g_answer, 100);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int additions = static_cast<int>(NumberArgument(argc, argv, 1, 100, 1, 100000));
  int failures = 0;
  int device = 0, concurrent = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, device));
  EXPECT(properties.concurrentManagedAccess == concurrent, "the properties say %d",
         properties.concurrentManagedAccess);
  std::printf("concurrentManagedAccess %d\n", concurrent);

  EXPECT(g_counters.whole == 1000 && g_counters.wide == 5000000000ULL && g_answer == 7,
         "initial values %d, %llu, %d", g_counters.whole, g_counters.wide, g_answer);
  TellWhere<<<1, 1>>>();
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  if (concurrent != 0)
    EXPECT(g_where == &g_counters, "the kernel has %p where the host has %p", g_where,
           static_cast<void*>(&g_counters));
  failures += CheckCounters("by turns, by name", g_counters, additions, false,
                            [&] { CountByName<<<kBlocks, kThreads>>>(additions); });
  g_counters.whole += 5;
  failures += CheckCounters("by turns, by address", g_counters, additions, false,
                            [&] { Count<<<kBlocks, kThreads>>>(&g_counters, additions); });
  if (concurrent != 0) failures += CheckConcurrent(additions);

  std::printf("managed_concurrent: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
