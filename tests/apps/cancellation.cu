// A thread cancelled inside a CUDA call completes the call. It is cancelled at its own next
// cancellation point. Its streams and memory stay usable for other threads.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "check.h"

static std::atomic<int> calling{0};
static std::atomic<bool> returned{false};
static std::atomic<bool> cancelled{false};
static cudaStream_t stream;
static int* place = nullptr;

__global__ void Work(int* place, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  ++*place;
}

struct Call {
  const char* name;
  cudaError_t (*call)();
};

static const Call kCalls[] = {
    {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
    {"cudaStreamSynchronize", [] { return cudaStreamSynchronize(stream); }},
    {"cudaMemcpy",
     [] {
       static int back = 0;
       cudaMemcpyAsync(&back, place, sizeof back, cudaMemcpyDeviceToHost, stream);
       return cudaStreamSynchronize(stream);
     }},
};

static void* Thread(void* argument) {
  const Call& call = *static_cast<const Call*>(argument);
  Work<<<1, 1, 0, stream>>>(place, 300'000'000);
  calling = 1;
  const cudaError_t error = call.call();
  if (error == cudaSuccess) returned = true;
  while (!cancelled) sched_yield();  // No cancellation point. Main may be late on a busy machine.
  pthread_testcancel();
  return argument;
}

// Cancelled during a wait outside CUDA: for a pipe, read through a library possibly preceded by
// cuspan's own functions.
static void* Reader(void* argument) {
  char byte = 0;
  calling = 1;
  while (read(*static_cast<int*>(argument), &byte, 1) != 1) {
  }
  return argument;
}

int main() {
  int failures = 0;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(&place, sizeof(int)));
  CHECK(cudaMemset(place, 0, sizeof(int)));
  int runs = 0;
  for (const Call& call : kCalls) {
    calling = 0;
    returned = false;
    cancelled = false;
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Thread, const_cast<Call*>(&call)) != 0) return 1;
    while (calling == 0) usleep(1000);
    usleep(20'000);
    pthread_cancel(thread);
    cancelled = true;
    void* result = nullptr;
    pthread_join(thread, &result);
    ++runs;
    EXPECT(result == PTHREAD_CANCELED, "%s: the thread was not cancelled", call.name);
    EXPECT(returned, "%s did not return", call.name);
    int value = 0;
    CHECK(cudaMemcpy(&value, place, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT(value == runs, "%s: the kernel ran %d times of %d", call.name, value, runs);
  }

  int ends[2];
  if (pipe(ends) != 0) return 1;
  calling = 0;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Reader, &ends[0]) != 0) return 1;
  while (calling == 0) usleep(1000);
  usleep(20'000);
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED, "a thread in read was not cancelled");
  CHECK(cudaDeviceSynchronize());
  std::printf("cancellation: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
