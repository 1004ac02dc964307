// A host function called by a stream ends its thread (pthread_exit). To CUDA, it never returns: its
// stream stays blocked, and later host functions are not called (measured natively, driver 580).
// Other work continues.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

static std::atomic<bool> entered{false};
static std::atomic<bool> left{false};
static std::atomic<bool> called{false};

// Reports that the thread has been unwound to the function's own frame.
struct Leaving {
  ~Leaving() { left = true; }
};

static void CUDART_CB Ends(void*) {
  const Leaving leaving;
  entered = true;
  pthread_exit(nullptr);
}

static void CUDART_CB IsCalled(void*) { called = true; }

__global__ void Store(int* place, int value) { *place = value; }

int main() {
  int failures = 0;
  cudaStream_t stopped, other;
  CHECK(cudaStreamCreateWithFlags(&stopped, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int* place = nullptr;
  CHECK(cudaMalloc(&place, sizeof(int)));
  // Loads the kernel. Later, its first launch could wait for the blocked stream.
  Store<<<1, 1, 0, other>>>(place, 4);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(other));

  CHECK(cudaLaunchHostFunc(stopped, Ends, nullptr));
  while (!left) std::this_thread::yield();
  EXPECT(entered, "the function was not called");

  int value = 0;
  Store<<<1, 1, 0, other>>>(place, 5);
  CHECK_LAUNCH();
  CHECK(cudaMemcpyAsync(&value, place, sizeof value, cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  EXPECT(value == 5, "another stream stored %d", value);

  CHECK(cudaLaunchHostFunc(other, IsCalled, nullptr));
  // Many rounds of work in a third stream, each longer than a call of a host function.
  cudaStream_t third;
  CHECK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
  for (int round = 0; round < 1000; ++round) {
    Store<<<1, 1, 0, third>>>(place, round);
    CHECK(cudaStreamSynchronize(third));
  }
  EXPECT(!called, "a function was called after one that never returned");
  const cudaError_t state = cudaStreamQuery(stopped);
  EXPECT(state == cudaErrorNotReady, "the stream went on: %s", cudaGetErrorName(state));
  std::printf("host_function_ends: %s\n", failures == 0 ? "PASS" : "FAIL");
  std::fflush(stdout);
  // A regular exit would wait for the function.
  _exit(failures == 0 ? 0 : 1);
}
