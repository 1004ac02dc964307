// Litmus tests of pinned memory used by the host and a kernel at the same time. The memory models
// of x86-64 and PTX together forbid each outcome counted here.
//
//   order NAME THREADS PAYLOAD_BYTES ROUNDS
//
// NAME: to_kernel, to_host: message passing, by all threads of the kernel at once, and one of the
// host; packed: to_kernel, with payloads and flags in one page; buffering: store buffering; loads:
// load buffering; words: coherence of one word.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cuda/atomic>

#include "check.h"

namespace {

using Word = unsigned long long;
constexpr int kWarp = 32;

__host__ __device__ Word Payload(Word round, int thread, int index) {
  return round * 1000003 + thread * 101 + index;
}

__device__ Word Acquire(Word* word) {
  return cuda::atomic_ref<Word, cuda::thread_scope_system>(*word).load(cuda::memory_order_acquire);
}
__device__ void Release(Word* word, Word value) {
  cuda::atomic_ref<Word, cuda::thread_scope_system>(*word).store(value, cuda::memory_order_release);
}
__device__ Word Relaxed(Word* word) {
  return cuda::atomic_ref<Word, cuda::thread_scope_system>(*word).load(cuda::memory_order_relaxed);
}
__device__ void Await(Word* word, Word value) {
  while (Acquire(word) < value) __nanosleep(200);
}

Word Load(Word* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
void Store(Word* word, Word value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
void AwaitHere(Word* word, Word value) {
  while (Load(word) < value) std::this_thread::yield();
}

// Positions of each thread's words, in pinned memory.
struct Places {
  Word* asked;     // Written by the kernel.
  Word* answered;  // Written by the host.
  Word* payload;
  int stride;          // Words between the flags of two threads.
  int payload_stride;  // Words between their payloads.
  int words;           // Words of a payload.
};

// Each thread asks; the host writes a payload, then an answer.
__global__ void ToKernel(Places at, Word rounds, unsigned* wrong) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  Word* const payload = at.payload + static_cast<size_t>(thread) * at.payload_stride;
  for (Word round = 1; round <= rounds; ++round) {
    Release(at.asked + thread * at.stride, round);
    Await(at.answered + thread * at.stride, round);
    for (int i = 0; i < at.words; ++i)
      if (Relaxed(payload + i) != Payload(round, thread, i)) atomicAdd(wrong, 1U);
  }
}

// The reverse direction: each thread writes a payload, then an answer.
__global__ void ToHost(Places at, Word rounds) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  Word* const payload = at.payload + static_cast<size_t>(thread) * at.payload_stride;
  for (Word round = 1; round <= rounds; ++round) {
    for (int i = 0; i < at.words; ++i)
      cuda::atomic_ref<Word, cuda::thread_scope_system>(payload[i])
          .store(Payload(round, thread, i), cuda::memory_order_relaxed);
    Release(at.asked + thread * at.stride, round);
    Await(at.answered + thread * at.stride, round);
  }
}

// Each side stores to its own word and loads the other's. At least one of them must see the other's
// store.
__global__ void Buffering(Places at, Word rounds, Word* seen) {
  for (Word round = 1; round <= rounds; ++round) {
    Await(at.answered, round);
    cuda::atomic_ref<Word, cuda::thread_scope_system> mine(at.payload[0]);
    cuda::atomic_ref<Word, cuda::thread_scope_system> other(at.payload[at.payload_stride]);
    mine.store(round, cuda::memory_order_seq_cst);
    seen[round] = other.load(cuda::memory_order_seq_cst);
    Release(at.asked, round);
  }
}

// Each side loads the other's word, then stores to its own. They must not both see the other's
// later store.
__global__ void Loads(Places at, Word rounds, Word* seen) {
  for (Word round = 1; round <= rounds; ++round) {
    Await(at.answered, round);
    seen[round] = Acquire(at.payload + at.payload_stride);
    Release(at.payload, round);
    Release(at.asked, round);
  }
}

// The values of a word must never decrease.
__global__ void Words(Word* counted, Word* counts, Word rounds, unsigned* wrong) {
  Word last = 0;
  for (Word mine = 1; last < rounds || mine <= rounds; ++mine) {
    const Word now = Relaxed(counted);
    if (now < last) atomicAdd(wrong, 1U);
    last = now;
    if (mine <= rounds) Release(counts, mine);
  }
}

template <typename T>
T* NewPinned(size_t count) {
  T* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable));
  std::memset(memory, 0, count * sizeof(T));
  return memory;
}

class Counter {
 public:
  Counter() {
    CHECK(cudaMalloc(&there_, sizeof *there_));
    CHECK(cudaMemset(there_, 0, sizeof *there_));
  }
  unsigned* there() { return there_; }
  unsigned Get() {
    unsigned count = 0;
    CHECK(cudaMemcpy(&count, there_, sizeof count, cudaMemcpyDefault));
    return count;
  }

 private:
  unsigned* there_ = nullptr;
};

Places NewPlaces(int threads, int words, bool packed) {
  Places at{};
  at.words = words;
  if (packed) {  // Payload between the thread's two flags.
    at.stride = at.payload_stride = words + 2;
    Word* const memory = NewPinned<Word>(static_cast<size_t>(threads) * at.stride);
    at.asked = memory;
    at.payload = memory + 1;
    at.answered = memory + 1 + words;
    return at;
  }
  at.stride = 8;
  at.payload_stride = words;
  at.asked = NewPinned<Word>(static_cast<size_t>(threads) * at.stride);
  at.answered = at.asked + 1;
  at.payload = NewPinned<Word>(static_cast<size_t>(threads) * words);
  return at;
}

unsigned PassToKernel(int threads, int words, Word rounds, bool packed) {
  const Places at = NewPlaces(threads, words, packed);
  Counter wrong;
  const int block = threads < kWarp ? threads : kWarp;
  ToKernel<<<(threads + block - 1) / block, block>>>(at, rounds, wrong.there());
  CHECK_LAUNCH();
  std::vector<Word> done(threads);
  for (Word left = rounds * threads; left != 0;) {
    for (int t = 0; t < threads; ++t) {
      const Word asked = Load(at.asked + t * at.stride);
      if (asked == done[t]) continue;
      Word* const payload = at.payload + static_cast<size_t>(t) * at.payload_stride;
      for (int i = 0; i < words; ++i)
        __atomic_store_n(payload + i, Payload(asked, t, i), __ATOMIC_RELAXED);
      Store(at.answered + t * at.stride, asked);
      left -= asked - done[t];
      done[t] = asked;
    }
  }
  CHECK(cudaDeviceSynchronize());
  return wrong.Get();
}

unsigned PassToHost(int threads, int words, Word rounds) {
  const Places at = NewPlaces(threads, words, false);
  const int block = threads < kWarp ? threads : kWarp;
  ToHost<<<(threads + block - 1) / block, block>>>(at, rounds);
  CHECK_LAUNCH();
  unsigned wrong = 0;
  std::vector<Word> done(threads);
  for (Word left = rounds * threads; left != 0;) {
    for (int t = 0; t < threads; ++t) {
      const Word asked = Load(at.asked + t * at.stride);
      if (asked == done[t]) continue;
      Word* const payload = at.payload + static_cast<size_t>(t) * at.payload_stride;
      for (int i = 0; i < words; ++i)
        wrong += __atomic_load_n(payload + i, __ATOMIC_RELAXED) != Payload(asked, t, i);
      Store(at.answered + t * at.stride, asked);
      left -= asked - done[t];
      done[t] = asked;
    }
  }
  CHECK(cudaDeviceSynchronize());
  return wrong;
}

// The two words are in different pages, or in one.
unsigned BufferStores(Word rounds, int stride) {
  Places at = NewPlaces(1, 2 * stride, false);
  at.payload_stride = stride;
  std::vector<Word> seen(rounds + 1);
  Word* there = nullptr;
  CHECK(cudaMalloc(&there, (rounds + 1) * sizeof(Word)));
  Buffering<<<1, 1>>>(at, rounds, there);
  CHECK_LAUNCH();
  for (Word round = 1; round <= rounds; ++round) {
    Store(at.answered, round);
    __atomic_store_n(at.payload + stride, round, __ATOMIC_SEQ_CST);
    seen[round] = __atomic_load_n(at.payload, __ATOMIC_SEQ_CST);
    AwaitHere(at.asked, round);
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<Word> others(rounds + 1);
  CHECK(cudaMemcpy(others.data(), there, (rounds + 1) * sizeof(Word), cudaMemcpyDefault));
  unsigned wrong = 0;
  for (Word round = 1; round <= rounds; ++round)
    wrong += seen[round] < round && others[round] < round;
  return wrong;
}

unsigned BufferLoads(Word rounds, int stride) {
  Places at = NewPlaces(1, 2 * stride, false);
  at.payload_stride = stride;
  Word* there = nullptr;
  CHECK(cudaMalloc(&there, (rounds + 1) * sizeof(Word)));
  std::vector<Word> seen(rounds + 1);
  Loads<<<1, 1>>>(at, rounds, there);
  CHECK_LAUNCH();
  for (Word round = 1; round <= rounds; ++round) {
    Store(at.answered, round);
    seen[round] = Load(at.payload);
    Store(at.payload + stride, round);
    AwaitHere(at.asked, round);
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<Word> others(rounds + 1);
  CHECK(cudaMemcpy(others.data(), there, (rounds + 1) * sizeof(Word), cudaMemcpyDefault));
  unsigned wrong = 0;
  for (Word round = 1; round <= rounds; ++round)
    wrong += seen[round] == round && others[round] == round;
  return wrong;
}

unsigned CountWords(Word rounds, int stride) {
  Word* const words = NewPinned<Word>(2 * stride);
  Counter there;
  Words<<<1, 1>>>(words, words + stride, rounds, there.there());
  CHECK_LAUNCH();
  unsigned wrong = 0;
  Word last = 0;
  for (Word mine = 1; last < rounds || mine <= rounds; ++mine) {
    if (mine <= rounds) Store(words, mine);
    const Word now = Load(words + stride);
    wrong += now < last;
    last = now;
  }
  CHECK(cudaDeviceSynchronize());
  return wrong + there.Get();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::string name = arguments[1];
  const int threads = std::atoi(arguments[2]);
  const int words = std::atoi(arguments[3]) / static_cast<int>(sizeof(Word));
  const Word rounds = std::strtoull(arguments[4], nullptr, 10);
  constexpr int kPage = 4096 / sizeof(Word);
  unsigned wrong = 0;
  if (name == "to_kernel" || name == "packed")
    wrong = PassToKernel(threads, words, rounds, name == "packed");
  else if (name == "to_host")
    wrong = PassToHost(threads, words, rounds);
  else if (name == "buffering")
    wrong = BufferStores(rounds, 1) + BufferStores(rounds, 2 * kPage);
  else if (name == "loads")
    wrong = BufferLoads(rounds, 1) + BufferLoads(rounds, 2 * kPage);
  else if (name == "words")
    wrong = CountWords(rounds, 1) + CountWords(rounds, 2 * kPage);
  else
    return 2;
  std::printf("%s: %d threads, payloads of %d bytes, %llu rounds: %u forbidden outcomes\n",
              name.c_str(), threads, words * static_cast<int>(sizeof(Word)), rounds, wrong);
  return wrong == 0 ? 0 : 1;
}
