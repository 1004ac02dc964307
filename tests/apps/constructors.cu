// Static objects with CUDA calls in their constructors before main, and in their destructors after
// it.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

namespace {

constexpr int kCount = 3000;

int failures_before_main = 0;

// Runs before the constructors of all objects, among the program's first code.
__attribute__((constructor(101))) void First() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) ++failures_before_main;
}

// A table on the device.
class Table {
 public:
  explicit Table(int first) {
    std::vector<int> values(kCount);
    for (int i = 0; i < kCount; ++i) values[i] = first + i;
    CHECK(cudaMalloc(&values_, kCount * sizeof(int)));
    CHECK(cudaMemcpy(values_, values.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaStreamCreate(&stream_));
    CHECK(cudaEventCreateWithFlags(&used_, cudaEventDisableTiming));
  }
  ~Table() {
    // The runtime may already be unloaded: both results are right.
    const cudaError_t freed = cudaFree(values_);
    if (freed != cudaSuccess && freed != cudaErrorCudartUnloading) {
      std::fprintf(stderr, "cudaFree in a destructor: %s\n", cudaGetErrorName(freed));
      std::_Exit(EXIT_FAILURE);
    }
  }
  int* values() const { return values_; }
  cudaStream_t stream() const { return stream_; }
  cudaEvent_t used() const { return used_; }

 private:
  int* values_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t used_ = nullptr;
};

const Table table(100);

// Created at its first use, in main.
const Table& LaterTable() {
  static const Table later(5000);
  return later;
}

__global__ void Add(int* to, const int* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

// Copies on the host, read back before main.
struct ReadBack {
  std::vector<int> values = std::vector<int>(kCount);
  ReadBack() {
    CHECK(cudaMemcpy(values.data(), table.values(), kCount * sizeof(int), cudaMemcpyDeviceToHost));
  }
};
const ReadBack read_back;

}  // namespace

int main() {
  int failures = failures_before_main;
  long wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += read_back.values[i] != 100 + i;
  EXPECT(wrong == 0, "%ld values of the table are wrong before main", wrong);
  Add<<<(kCount + 127) / 128, 128, 0, table.stream()>>>(table.values(), LaterTable().values(),
                                                        kCount);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(table.used(), table.stream()));
  CHECK(cudaEventSynchronize(table.used()));
  std::vector<int> values(kCount);
  CHECK(cudaMemcpy(values.data(), table.values(), kCount * sizeof(int), cudaMemcpyDeviceToHost));
  wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += values[i] != 5100 + 2 * i;
  EXPECT(wrong == 0, "%ld sums are wrong", wrong);
  std::printf("constructors: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
