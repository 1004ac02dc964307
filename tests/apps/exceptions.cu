// C++ exceptions passing through code with CUDA calls: begun work is undone by unwinding, nothing
// is lost, and the devices still work.
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kCount = 1000;

__global__ void Set(int* values, int count, int to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = to;
}

class CudaError : public std::runtime_error {
 public:
  explicit CudaError(cudaError_t error)
      : std::runtime_error(cudaGetErrorString(error)), error(error) {}
  const cudaError_t error;
};

void Try(cudaError_t error) {
  if (error != cudaSuccess) throw CudaError(error);
}

int blocks_alive = 0;

// Device memory and a stream, freed at the end of their scope.
class Block {
 public:
  explicit Block(std::size_t bytes) {
    Try(cudaMalloc(&memory_, bytes));
    if (const cudaError_t error = cudaStreamCreate(&stream_); error != cudaSuccess) {
      cudaFree(memory_);
      throw CudaError(error);
    }
    ++blocks_alive;
  }
  Block(const Block&) = delete;
  ~Block() {
    --blocks_alive;
    // Runs during unwinding too.
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  int* get() const { return static_cast<int*>(memory_); }
  cudaStream_t stream() const { return stream_; }

 private:
  void* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

int Throws(const std::string& text) { throw std::invalid_argument(text); }

int Value(int number) {
  if (number < 0) throw std::out_of_range("a negative number");
  return number;
}

// Fills a block, from `depth` frames down.
void Fill(int depth, const Block& block, int number) {
  const Block own(depth * 256 + 16);
  Set<<<1, 1, 0, own.stream()>>>(own.get(), 1, depth);
  Try(cudaGetLastError());
  if (depth != 0) return Fill(depth - 1, block, number);
  // The last argument is computed between the configuration of the launch and the launch.
  Set<<<(kCount + 127) / 128, 128, 0, block.stream()>>>(block.get(), kCount, Value(number));
  Try(cudaGetLastError());
}

int Check(const Block& block, int expected) {
  int failures = 0;
  std::vector<int> values(kCount);
  CHECK(cudaStreamSynchronize(block.stream()));
  CHECK(cudaMemcpy(values.data(), block.get(), kCount * sizeof(int), cudaMemcpyDeviceToHost));
  long wrong = 0;
  for (const int value : values) wrong += value != expected;
  EXPECT(wrong == 0, "%ld values are not %d", wrong, expected);
  return failures;
}

int CheckUnwinding() {
  int failures = 0;
  const Block block(kCount * sizeof(int));
  Fill(3, block, 7);
  for (int round = 0; round < 50; ++round) {
    bool caught = false;
    try {
      Fill(5, block, -1);
    } catch (const std::out_of_range&) {
      caught = true;
    }
    EXPECT(caught, "no exception in round %d", round);
    EXPECT(blocks_alive == 1, "%d blocks are alive", blocks_alive);
  }
  failures += Check(block, 7);
  // A configuration left over from an aborted launch is not used for the next launch.
  Fill(0, block, 8);
  return failures + Check(block, 8);
}

int CheckCudaErrors() {
  int failures = 0;
  cudaError_t caught = cudaSuccess;
  try {
    const Block fits(100);
    const Block too_large(std::size_t{1} << 60);
  } catch (const CudaError& error) {
    caught = error.error;
  }
  EXPECT(caught == cudaErrorMemoryAllocation, "it is %s", cudaGetErrorName(caught));
  EXPECT(blocks_alive == 0, "%d blocks are alive", blocks_alive);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation, "the last error is another");
  EXPECT(cudaGetLastError() == cudaSuccess, "it was taken");
  return failures;
}

// An exception of another thread, outliving the thread.
int CheckThreads() {
  int failures = 0;
  const Block block(kCount * sizeof(int));
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      const Block own(4096);
      Set<<<1, 32, 0, cudaStreamPerThread>>>(own.get(), 32, 1);
      Try(cudaGetLastError());
      Throws("from a thread");
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  bool caught = false;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::invalid_argument& error) {
    caught = std::string(error.what()) == "from a thread";
  }
  EXPECT(caught, "the thread's exception");
  Fill(1, block, 9);
  return failures + Check(block, 9);
}

// A host function called by CUDA catches its own exceptions.
int CheckHostFunction() {
  int failures = 0;
  const Block block(16);
  bool caught = false;
  CHECK(cudaLaunchHostFunc(
      block.stream(),
      [](void* data) {
        try {
          Throws("in a host function");
        } catch (const std::exception&) {
          *static_cast<bool*>(data) = true;
        }
      },
      &caught));
  CHECK(cudaStreamSynchronize(block.stream()));
  EXPECT(caught, "an exception in a host function");
  return failures;
}

}  // namespace

int main() {
  int failures = CheckUnwinding();
  failures += CheckCudaErrors() + CheckThreads() + CheckHostFunction();
  EXPECT(blocks_alive == 0, "%d blocks are alive", blocks_alive);
  std::printf("exceptions: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
