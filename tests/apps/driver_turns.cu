// A word of managed memory used by the host and kernels by turns, long enough for a system to move
// it ahead of its use. Then one of several sequences: a move too early, too late or in the wrong
// place gives a wrong value. No kernel runs while the host accesses the word, as needed on devices
// without concurrent access.
//
//   driver_turns [ROUNDS]
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver_check.h"

namespace {

__global__ void Add(int* word, int value) { *word += value; }

// Keeps the word's value for later.
__global__ void Read(const int* word, int* into) { *into = *word; }

__global__ void Set(unsigned* flag, unsigned value) {
  *flag = value;
  __threadfence_system();
}

constexpr int kTurns = 8;
constexpr size_t kLongCopy = size_t{64} << 20;

class Sequences {
 public:
  Sequences() {
    CHECK(cudaMallocManaged(&word_, sizeof(int)));
    CHECK(cudaMalloc(&seen_, sizeof(int)));
    CHECK(cudaMalloc(&flag_, sizeof(unsigned)));
    CHECK(cudaMemset(flag_, 0, sizeof(unsigned)));
    CHECK(cudaMalloc(&far_, kLongCopy));
    CHECK(cudaMallocHost(&near_, kLongCopy));
    std::memset(near_, 0, kLongCopy);
    for (auto& stream : streams_) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    *word_ = 0;
    // Loads all kernels: at a kernel's first launch, a driver may wait until the device is idle.
    Add<<<1, 1>>>(word_, 0);
    Read<<<1, 1>>>(word_, seen_);
    Set<<<1, 1>>>(flag_, 0);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
  }
  Sequences(const Sequences&) = delete;
  ~Sequences() {
    CHECK(cudaEventDestroy(event_));
    for (auto& stream : streams_) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(near_));
    CHECK(cudaFree(far_));
    CHECK(cudaFree(flag_));
    CHECK(cudaFree(seen_));
    CHECK(cudaFree(word_));
  }

  // A host function in the stream writes the word; the kernel behind it reads it.
  int HostFunction(int round) {
    int failures = Turns();
    struct Write {
      int* word;
      int value;
    } write{word_, 1000 + round};
    CHECK(cudaLaunchHostFunc(
        streams_[0],
        [](void* argument) {
          const Write& now = *static_cast<Write*>(argument);
          *now.word = now.value;
        },
        &write));
    Add<<<1, 1, 0, streams_[0]>>>(word_, 1);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[0]));
    model_ = 1001 + round;
    EXPECT(*word_ == model_, "round %d: %d, and should be %d", round, *word_, model_);
    return failures;
  }

  // The stream of the turns is busy. The host writes the word, and a kernel of another stream reads
  // it.
  int BusyStream(int round) {
    int failures = Turns();
    CHECK(cudaMemcpyAsync(far_, near_, kLongCopy, cudaMemcpyHostToDevice, streams_[0]));
    // The stream waits for nothing else.
    CHECK(cudaStreamSynchronize(streams_[1]));
    *word_ = model_ = 2000 + round;
    Add<<<1, 1, 0, streams_[1]>>>(word_, 5);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[1]));
    model_ += 5;
    EXPECT(*word_ == model_, "round %d: %d, and should be %d", round, *word_, model_);
    CHECK(cudaStreamSynchronize(streams_[0]));
    return failures;
  }

  // The same with a copy of the word behind the long one. It reads the kernel's result.
  int CopyBehind(int round) {
    int failures = Turns();
    int copied = -1;
    CHECK(cudaMemcpyAsync(far_, near_, kLongCopy, cudaMemcpyHostToDevice, streams_[0]));
    CHECK(cudaMemcpyAsync(&copied, word_, sizeof copied, cudaMemcpyDefault, streams_[0]));
    CHECK(cudaEventRecord(event_, streams_[0]));
    CHECK(cudaStreamSynchronize(streams_[1]));
    CHECK(cudaStreamWaitEvent(streams_[1], event_, 0));
    Add<<<1, 1, 0, streams_[1]>>>(word_, 7);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[1]));
    EXPECT(copied == model_, "round %d: %d copied, and should be %d", round, copied, model_);
    model_ += 7;
    EXPECT(*word_ == model_, "round %d: %d, and should be %d", round, *word_, model_);
    return failures;
  }

  // The stream waits for a word, written afterwards by a kernel of another stream. Meanwhile the
  // host writes the word of the turns.
  int HeldStream(int round) {
    int failures = Turns();
    const unsigned value = static_cast<unsigned>(round) + 1;
    DRIVER(cuStreamWaitValue32(streams_[0], reinterpret_cast<CUdeviceptr>(flag_), value,
                               CU_STREAM_WAIT_VALUE_GEQ));
    *word_ = model_ = 3000 + round;
    Add<<<1, 1, 0, streams_[0]>>>(word_, 9);
    CHECK_LAUNCH();
    Set<<<1, 1, 0, streams_[1]>>>(flag_, value);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[0]));
    model_ += 9;
    EXPECT(*word_ == model_, "round %d: %d, and should be %d", round, *word_, model_);
    return failures;
  }

  // Another stream changes the word after the stream of the turns was waited for.
  int LaterChange(int round) {
    int failures = Turns();
    Add<<<1, 1, 0, streams_[0]>>>(word_, 1);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(event_, streams_[0]));
    CHECK(cudaStreamWaitEvent(streams_[1], event_, 0));
    CHECK(cudaMemcpyAsync(far_, near_, kLongCopy / 8, cudaMemcpyHostToDevice, streams_[1]));
    Add<<<1, 1, 0, streams_[1]>>>(word_, 10);
    CHECK_LAUNCH();
    Read<<<1, 1, 0, streams_[1]>>>(word_, seen_);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[0]));
    CHECK(cudaStreamSynchronize(streams_[1]));
    model_ += 11;
    EXPECT(*word_ == model_, "round %d: %d, and should be %d", round, *word_, model_);
    int seen = 0;
    CHECK(cudaMemcpy(&seen, seen_, sizeof seen, cudaMemcpyDeviceToHost));
    EXPECT(seen == model_, "round %d: the kernel saw %d instead of %d", round, seen, model_);
    // Once more, without a wait for the first stream between both.
    Add<<<1, 1, 0, streams_[0]>>>(word_, 1);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[0]));
    Add<<<1, 1, 0, streams_[1]>>>(word_, 10);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams_[1]));
    model_ += 11;
    EXPECT(*word_ == model_, "round %d: %d at last, and should be %d", round, *word_, model_);
    return failures;
  }

 private:
  int Turns() {
    int failures = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      *word_ = model_ = 10 * turn;
      Add<<<1, 1, 0, streams_[0]>>>(word_, 3);
      CHECK_LAUNCH();
      CHECK(cudaStreamSynchronize(streams_[0]));
      model_ += 3;
      EXPECT(*word_ == model_, "turn %d: %d, and should be %d", turn, *word_, model_);
    }
    return failures;
  }

  int* word_ = nullptr;
  int model_ = 0;
  int* seen_ = nullptr;
  unsigned* flag_ = nullptr;
  char* far_ = nullptr;
  char* near_ = nullptr;
  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 5, 1, 100'000));
  DeviceCount();
  CHECK(cudaSetDevice(0));
  int failures = 0;
  {
    Sequences sequences;
    for (int round = 0; round < rounds && failures == 0; ++round) {
      failures += sequences.HostFunction(round);
      failures += sequences.BusyStream(round);
      failures += sequences.CopyBehind(round);
      failures += sequences.HeldStream(round);
      failures += sequences.LaterChange(round);
    }
  }
  std::printf("driver_turns: %d rounds: %s\n", rounds, Verdict(failures));
  return ExitStatus(failures);
}
