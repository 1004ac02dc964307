// Asks a thousand times and more about streams that are held: one of its own, one that is bound to
// the default stream, the calling thread's own, or the legacy default stream. Nothing else happens
// meanwhile. Prints how often it was told that the stream is not ready; exits with status 1 when it
// is told anything else before it lets the stream go, or is not told in the end that it is ready.
//
// usage: polls own|blocking|thread|legacy
#include <cstdio>
#include <cstring>

#include "use_cuda.h"

namespace {

constexpr int kQuestions = 5000;

__global__ void WaitFor(volatile int* go_on) {
  while (*go_on == 0) {
  }
}

bool Fails(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return false;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const kind = argc == 2 ? argv[1] : "";
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  if (std::strcmp(kind, "own") == 0 &&
      Fails("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)))
    return 2;
  if (std::strcmp(kind, "blocking") == 0 && Fails("stream", cudaStreamCreate(&stream))) return 2;
  if (std::strcmp(kind, "thread") == 0) stream = cudaStreamPerThread;
  // What lets the kernel go must not wait for it.
  if (Fails("stream", cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking))) return 2;
  int* go_on = nullptr;
  int* now = nullptr;
  if (Fails("memory", cudaMalloc(&go_on, sizeof *go_on)) ||
      Fails("memory", cudaMallocHost(&now, sizeof *now)) ||
      Fails("memory", cudaMemset(go_on, 0, sizeof *go_on)) ||
      Fails("memory", cudaDeviceSynchronize()))
    return 2;
  for (int round = 0; round < 2; ++round) {
    WaitFor<<<1, 1, 0, stream>>>(go_on);
    if (Fails("launch", cudaGetLastError())) return 2;
    int told = 0;
    while (told < kQuestions && cudaStreamQuery(stream) == cudaErrorNotReady) ++told;
    std::printf("%d times not ready\n", told);
    *now = 1;
    if (Fails("copy", cudaMemcpyAsync(go_on, now, sizeof *now, cudaMemcpyHostToDevice, other)))
      return 2;
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady) state = cudaStreamQuery(stream);
    if (Fails("in the end", state) || told != kQuestions) return 1;
    // As before, for the next round.
    if (Fails("memory", cudaMemsetAsync(go_on, 0, sizeof *go_on, other)) ||
        Fails("memory", cudaStreamSynchronize(other)))
      return 2;
  }
  std::puts("ready");
  return 0;
}
