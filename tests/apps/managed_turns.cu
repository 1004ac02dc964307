// Managed memory used by the host and kernels by turns, in random ways kept for many turns: words
// of one page or of several, written or only read by the host, kernels in one stream or in two, and
// all ways to wait for them. The host accesses the memory only while no kernel runs, as needed on
// devices without concurrent access.
//
//   managed_turns [PHASES [SEED]]
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kWords = (size_t{4} << 20) / sizeof(int);
constexpr size_t kPageWords = 4096 / sizeof(int);
constexpr int kMostWords = 6;

struct Words {
  int count;
  unsigned at[kMostWords];
};

__global__ void Add(int* memory, Words words, int add) {
  const int i = threadIdx.x;
  if (i < words.count) atomicAdd(memory + words.at[i], add);
}

enum class Wait { kDevice, kStream, kEvent, kStreamQuery, kEventQuery, kCopy, kFunction, kMost };

// The same for some turns.
struct Phase {
  Words words;
  bool writes;       // The host also writes.
  int launches;      // Kernels of each turn.
  bool two_streams;  // Used alternately.
  bool default_stream;
  Wait wait;
  bool fills;         // A fill of the first word comes before the kernels.
  int other_page_at;  // A turn of the host with a touch of another page of the same block.
};

class Turns {
 public:
  Turns(unsigned seed, int device) : random_(seed) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMallocManaged(&memory_, kWords * sizeof(int)));
    CHECK(cudaMalloc(&own_, sizeof(int)));
    for (auto& stream : streams_) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    model_.assign(kWords, 0);
    for (size_t i = 0; i < kWords; ++i) memory_[i] = model_[i] = Any(1000);
  }
  ~Turns() {
    CHECK(cudaDeviceSynchronize());
    for (auto& stream : streams_) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event_));
    CHECK(cudaFree(own_));
    CHECK(cudaFree(memory_));
  }

  int Run() {
    const Phase phase = Choose();
    int failures = 0;
    const int turns = 1 + Any(40) + (Any(10) == 0 ? 80 : 0);
    for (int turn = 0; turn < turns && failures == 0; ++turn) failures += Turn(phase, turn);
    // Streams end in between.
    if (Any(4) == 0) {
      CHECK(cudaStreamDestroy(streams_[0]));
      CHECK(cudaStreamCreateWithFlags(&streams_[0], cudaStreamNonBlocking));
    }
    return failures + Compare();
  }

 private:
  int Any(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  Phase Choose() {
    Phase phase{};
    phase.words.count = 1 + Any(kMostWords);
    const unsigned page = Any(static_cast<int>(kWords / kPageWords));
    const bool one_page = Any(2) == 0;
    for (int i = 0; i < phase.words.count; ++i) {
      const unsigned in = one_page ? page : Any(static_cast<int>(kWords / kPageWords));
      phase.words.at[i] = in * kPageWords + Any(kPageWords);
      for (int k = 0; k < i; ++k)
        if (phase.words.at[k] == phase.words.at[i]) phase.words.count = i;
    }
    phase.writes = Any(4) != 0;
    phase.launches = 1 + Any(3);
    phase.two_streams = Any(4) == 0;
    phase.default_stream = Any(3) == 0;
    phase.wait = static_cast<Wait>(Any(static_cast<int>(Wait::kMost)));
    phase.fills = Any(6) == 0;
    phase.other_page_at = Any(3) == 0 ? Any(20) : -1;
    return phase;
  }

  int Turn(const Phase& phase, int turn) {
    const Words& words = phase.words;
    int failures = 0;
    if (phase.writes) {
      const int i = Any(words.count);
      memory_[words.at[i]] = model_[words.at[i]] = Any(1 << 20);
    }
    if (turn == phase.other_page_at) {
      const size_t other = words.at[0] ^ kPageWords;
      memory_[other] += 1;
      model_[other] += 1;
    }
    cudaStream_t first = phase.default_stream ? nullptr : streams_[0];
    if (phase.fills) {
      CHECK(cudaMemsetAsync(memory_ + words.at[0], 0, sizeof(int), first));
      model_[words.at[0]] = 0;
      // The kernels may be in another stream.
      CHECK(cudaStreamSynchronize(first));
    }
    for (int launch = 0; launch < phase.launches; ++launch) {
      const int add = 1 + Any(100);
      cudaStream_t stream = phase.two_streams && launch % 2 == 1 ? streams_[1] : first;
      Add<<<1, 32, 0, stream>>>(memory_, words, add);
      CHECK_LAUNCH();
      for (int i = 0; i < words.count; ++i) model_[words.at[i]] += add;
    }
    if (phase.two_streams && phase.wait != Wait::kDevice) {
      // Joined by an event.
      CHECK(cudaEventRecord(event_, streams_[1]));
      CHECK(cudaStreamWaitEvent(first, event_, 0));
    }
    Await(phase.wait, first);
    for (int i = 0; i < words.count; ++i) {
      const unsigned at = words.at[i];
      const int here = memory_[at];
      EXPECT(here == model_[at], "turn %d: word %u is %d, and should be %d (waited in way %d)",
             turn, at, here, model_[at], static_cast<int>(phase.wait));
    }
    return failures;
  }

  void Await(Wait wait, cudaStream_t stream) {
    switch (wait) {
      case Wait::kDevice:
        CHECK(cudaDeviceSynchronize());
        return;
      case Wait::kStream:
        CHECK(cudaStreamSynchronize(stream));
        return;
      case Wait::kEvent:
        CHECK(cudaEventRecord(event_, stream));
        CHECK(cudaEventSynchronize(event_));
        return;
      case Wait::kStreamQuery:
        while (!Done(cudaStreamQuery(stream))) {
        }
        return;
      case Wait::kEventQuery:
        CHECK(cudaEventRecord(event_, stream));
        while (!Done(cudaEventQuery(event_))) {
        }
        return;
      case Wait::kCopy: {
        int ignored = 0;
        CHECK(cudaMemcpyAsync(own_, &ignored, sizeof ignored, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(&ignored, own_, sizeof ignored, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        return;
      }
      default:
        CHECK(cudaLaunchHostFunc(
            stream, [](void*) {}, nullptr));
        CHECK(cudaStreamSynchronize(stream));
    }
  }

  static bool Done(cudaError_t result) {
    if (result == cudaErrorNotReady) return false;
    CHECK(result);
    return true;
  }

  // Compares all words, sometimes.
  int Compare() {
    int failures = 0;
    if (Any(8) != 0) return 0;
    CHECK(cudaDeviceSynchronize());
    int wrong = 0;
    for (size_t i = 0; i < kWords; ++i) wrong += memory_[i] != model_[i];
    EXPECT(wrong == 0, "%d words are wrong", wrong);
    return failures;
  }

  std::mt19937 random_;
  int* memory_ = nullptr;
  int* own_ = nullptr;
  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
  std::vector<int> model_;
};

}  // namespace

int main(int argc, char** argv) {
  const int phases = argc > 1 ? std::atoi(argv[1]) : 60;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  int failures = 0;
  for (int device = 0; device < devices; ++device) {
    Turns turns(seed + static_cast<unsigned>(device), device);
    for (int phase = 0; phase < phases && failures == 0; ++phase) failures += turns.Run();
  }
  std::printf(failures == 0 ? "PASS\n" : "FAIL\n");
  return failures == 0 ? 0 : 1;
}
