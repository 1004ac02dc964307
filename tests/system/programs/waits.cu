// Waits for its devices in one way, again and again or for ever, until an error; then prints the
// error's name and ends with status 0. Prints "waits" as soon as it waits.
//
//   waits WAY
//
//   room      launches filling the channel: for room there
//   slots     copies of pageable memory to the device: for staging slots
//   sender    the same from page-locked memory, asynchronously, by a thread of the client
//   wanted    a copy behind a kernel without end: for the device's clear to send
//   bytes     copies from the device: for their bytes
//   reply     a synchronisation behind such a kernel: for the answer to a call
//   event     an event behind such a kernel
//   pages     managed memory written by a kernel: for its pages
//   open      the device is reset and used anew: for the agent's answers
//   peer      copies between two devices: for a channel between these, and for its slots
//   work      copies there, a kernel, copies back: prints "wrong" and ends with status 1 if the
//             numbers are

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "use_cuda.h"

namespace {

constexpr size_t kCopyBytes = 64 << 20;
constexpr int kNumbers = 1 << 20;

struct Large {
  char bytes[4000];
};

__global__ void Take(Large large, int* sink) {
  if (large.bytes[0] != 0) *sink = 1;
}

__global__ void Spin(volatile int* go_on) {
  while (*go_on != 1) {
  }
}

__global__ void AddEach(unsigned* numbers, unsigned number) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  numbers[i] = numbers[i] * 5 + number;
}

__global__ void Count(unsigned* counter) { *counter = *counter + 1; }

void Say(const char* word) {
  std::printf("%s\n", word);
  std::fflush(stdout);
}

// Repeats `step` until it fails, and prints "waits" after the first time.
template <typename Step>
cudaError_t Repeat(Step step) {
  for (unsigned i = 0;; ++i) {
    if (const cudaError_t error = step(i); error != cudaSuccess) return error;
    if (i == 0) Say("waits");
  }
}

cudaError_t StartSpin() {
  int* go_on = nullptr;
  cudaError_t error = cudaMalloc(&go_on, sizeof(int));
  if (error == cudaSuccess) error = cudaMemset(go_on, 0, sizeof(int));
  if (error == cudaSuccess) {
    Spin<<<1, 1>>>(go_on);
    error = cudaGetLastError();
  }
  return error;
}

cudaError_t Room() {
  int* sink = nullptr;
  if (const cudaError_t error = cudaMalloc(&sink, sizeof(int)); error != cudaSuccess) return error;
  const Large large{};
  return Repeat([&](unsigned) {
    Take<<<1, 1>>>(large, sink);
    return cudaGetLastError();
  });
}

cudaError_t Copy(bool to_device, bool pinned) {
  unsigned char* there = nullptr;
  unsigned char* here = nullptr;
  cudaError_t error = cudaMalloc(&there, kCopyBytes);
  std::vector<unsigned char> pageable(pinned ? 0 : kCopyBytes);
  if (!pinned)
    here = pageable.data();
  else if (error == cudaSuccess)
    error = cudaMallocHost(&here, kCopyBytes);
  if (error != cudaSuccess) return error;
  return Repeat([&](unsigned) {
    void* const to = to_device ? there : here;
    const void* const from = to_device ? here : there;
    if (!pinned) return cudaMemcpy(to, from, kCopyBytes, cudaMemcpyDefault);
    const cudaError_t begun = cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDefault);
    return begun != cudaSuccess ? begun : cudaStreamSynchronize(nullptr);
  });
}

cudaError_t Wanted() {
  unsigned char* there = nullptr;
  std::vector<unsigned char> here(kCopyBytes);
  cudaError_t error = cudaMalloc(&there, kCopyBytes);
  if (error == cudaSuccess) error = StartSpin();
  if (error != cudaSuccess) return error;
  Say("waits");
  return cudaMemcpy(there, here.data(), kCopyBytes, cudaMemcpyHostToDevice);
}

cudaError_t Reply() {
  if (const cudaError_t error = StartSpin(); error != cudaSuccess) return error;
  Say("waits");
  return cudaDeviceSynchronize();
}

cudaError_t Event() {
  cudaEvent_t event = nullptr;
  cudaError_t error = StartSpin();
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
  if (error == cudaSuccess) error = cudaEventRecord(event);
  if (error != cudaSuccess) return error;
  Say("waits");
  return cudaEventSynchronize(event);
}

cudaError_t Pages() {
  unsigned* counter = nullptr;
  if (const cudaError_t error = cudaMallocManaged(&counter, sizeof(unsigned)); error != cudaSuccess)
    return error;
  return Repeat([&](unsigned) {
    Count<<<1, 1>>>(counter);
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return error;
    *counter = *counter + 1;
    return cudaSuccess;
  });
}

cudaError_t Open() {
  return Repeat([](unsigned i) {
    int result = 0;
    const cudaError_t error = AddSevenOnDevice(static_cast<int>(i), &result);
    return error != cudaSuccess ? error : cudaDeviceReset();
  });
}

cudaError_t Peer() {
  unsigned char* memory[2] = {};
  for (const int device : {0, 1}) {
    cudaError_t error = cudaSetDevice(device);
    if (error == cudaSuccess) error = cudaMalloc(&memory[device], kCopyBytes);
    if (error != cudaSuccess) return error;
  }
  return Repeat([&](unsigned) {
    const cudaError_t begun = cudaMemcpyPeer(memory[0], 0, memory[1], 1, kCopyBytes);
    return begun != cudaSuccess ? begun : cudaDeviceSynchronize();
  });
}

cudaError_t Work() {
  unsigned* there = nullptr;
  std::vector<unsigned> here(kNumbers);
  if (const cudaError_t error = cudaMalloc(&there, kNumbers * sizeof(unsigned));
      error != cudaSuccess)
    return error;
  return Repeat([&](unsigned i) {
    for (unsigned j = 0; j < kNumbers; ++j) here[j] = i ^ j;
    cudaError_t error =
        cudaMemcpy(there, here.data(), kNumbers * sizeof(unsigned), cudaMemcpyHostToDevice);
    if (error != cudaSuccess) return error;
    AddEach<<<kNumbers / 256, 256>>>(there, i);
    error = cudaGetLastError();
    if (error == cudaSuccess)
      error = cudaMemcpy(here.data(), there, kNumbers * sizeof(unsigned), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) return error;
    for (unsigned j = 0; j < kNumbers; ++j) {
      if (here[j] == (i ^ j) * 5 + i) continue;
      std::printf("wrong: round %u, number %u is %u\n", i, j, here[j]);
      std::exit(1);
    }
    return cudaSuccess;
  });
}

cudaError_t Wait(const char* way) {
  if (std::strcmp(way, "room") == 0) return Room();
  if (std::strcmp(way, "slots") == 0) return Copy(true, false);
  if (std::strcmp(way, "sender") == 0) return Copy(true, true);
  if (std::strcmp(way, "wanted") == 0) return Wanted();
  if (std::strcmp(way, "bytes") == 0) return Copy(false, false);
  if (std::strcmp(way, "reply") == 0) return Reply();
  if (std::strcmp(way, "event") == 0) return Event();
  if (std::strcmp(way, "pages") == 0) return Pages();
  if (std::strcmp(way, "open") == 0) return Open();
  if (std::strcmp(way, "peer") == 0) return Peer();
  if (std::strcmp(way, "work") == 0) return Work();
  std::fprintf(stderr, "there is no way '%s'\n", way);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Say(cudaGetErrorName(Wait(argv[1])));
}
