// Resets its device many times, after another thread's use each time. Prints the process's
// mappings, descriptors and KiB of memory after a few of the resets and after all.
//
//   resets_often RESETS

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 8;
constexpr int kFew = 2 * kThreads;

std::mutex mutex;
std::condition_variable changed;
int turn = -1;  // Thread using the device now; -1: none.
bool over = false;

__global__ void Set(int* value) { *value = 1; }

void Use() {
  int* value = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&value, 1 << 20));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&event));
  Set<<<1, 1, 0, stream>>>(value);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaEventSynchronize(event));
}

void Serve(int number) {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return over || turn == number; });
    if (over) return;
    Use();
    turn = -1;
    changed.notify_all();
  }
}

void SayWhatIsHeld() {
  std::ifstream maps("/proc/self/maps");
  const auto lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  long resident = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") status >> resident;
  std::printf("%ld %ld %ld\n", static_cast<long>(lines),
              static_cast<long>(std::distance(begin(descriptors), end(descriptors))), resident);
}

}  // namespace

int main(int argc, char** argv) {
  const int resets = static_cast<int>(NumberArgument(argc, argv, 1, 100, kFew, 100000));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(Serve, i);
  for (int i = 1; i <= resets; ++i) {
    {
      std::unique_lock lock(mutex);
      turn = i % kThreads;
      changed.notify_all();
      changed.wait(lock, [] { return turn == -1; });
    }
    CHECK(cudaDeviceReset());
    if (i == kFew || i == resets) SayWhatIsHeld();
  }
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return 0;
}
