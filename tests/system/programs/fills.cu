// fills MIB: keeps this much device memory, allocated in several ways, in use. In each round,
// kernels add one to a word of each page. Prints the number of rounds. At the end of its input it
// checks each of these words.
#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 4096;
constexpr unsigned kBlocks = 4;
constexpr unsigned kThreads = 64;

struct Part {
  unsigned char* at;
  std::size_t bytes;
};

__global__ void Number(unsigned char* at, std::size_t pages, unsigned first) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages;
       i += gridDim.x * blockDim.x)
    *reinterpret_cast<unsigned*>(at + i * kPage) = first + static_cast<unsigned>(i);
}

__global__ void AddOne(unsigned char* at, std::size_t pages) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages;
       i += gridDim.x * blockDim.x)
    ++*reinterpret_cast<unsigned*>(at + i * kPage);
}

__global__ void Compare(const unsigned char* at, std::size_t pages, unsigned first,
                        unsigned* wrong) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages;
       i += gridDim.x * blockDim.x)
    if (*reinterpret_cast<const unsigned*>(at + i * kPage) != first + static_cast<unsigned>(i))
      atomicAdd(wrong, 1U);
}

bool Works(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return true;
  const char* name = "unknown";
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", what, name);
  return false;
}

// Maps driver memory (cuMemCreate) at reserved addresses.
bool Map(std::size_t bytes, Part* part) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr at = 0;
  if (!Works(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve") ||
      !Works(cuMemCreate(&memory, bytes, &properties, 0), "cuMemCreate") ||
      !Works(cuMemMap(at, bytes, 0, memory, 0), "cuMemMap") ||
      !Works(cuMemSetAccess(at, bytes, &access, 1), "cuMemSetAccess") ||
      !Works(cuMemRelease(memory), "cuMemRelease"))
    return false;
  *part = {reinterpret_cast<unsigned char*>(at), bytes};
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64) * kMiB;
  std::vector<Part> parts;
  // An odd number of pages, a large block, and the rest, allocated in three ways.
  for (const std::size_t size : {17 * kPage, bytes / 2}) {
    void* at = nullptr;
    CHECK(cudaMalloc(&at, size));
    parts.push_back({static_cast<unsigned char*>(at), size});
  }
  void* at = nullptr;
  CHECK(cudaMallocAsync(&at, bytes / 4, nullptr));
  parts.push_back({static_cast<unsigned char*>(at), bytes / 4});
  Part mapped{};
  if (!Map(bytes / 4 / (2 * kMiB) * (2 * kMiB), &mapped)) return 3;
  parts.push_back(mapped);
  unsigned* wrong = nullptr;
  CHECK(cudaMalloc(&wrong, sizeof *wrong));
  CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  unsigned first = 0;
  for (const Part& part : parts) {
    const std::size_t pages = part.bytes / kPage;
    Number<<<kBlocks, kThreads>>>(part.at, pages, first);
    first += static_cast<unsigned>(pages);
  }
  CHECK(cudaDeviceSynchronize());
  std::puts("ready");
  std::fflush(stdout);
  char order[16] = {};
  if (std::fgets(order, sizeof order, stdin) == nullptr) return 3;
  // Creates and launches a graph, possibly while its memory is swapped out.
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
  CHECK(cudaMemcpyAsync(parts[1].at + sizeof(unsigned), parts[2].at, sizeof(unsigned),
                        cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  unsigned rounds = 0;
  for (;;) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) == 1) break;
    for (const Part& part : parts) AddOne<<<kBlocks, kThreads>>>(part.at, part.bytes / kPage);
    CHECK(cudaDeviceSynchronize());
    std::printf("%u\n", ++rounds);
    std::fflush(stdout);
  }
  first = rounds;
  std::size_t copied_wrong = 0;
  std::vector<unsigned> page(kPage / sizeof(unsigned));
  for (const Part& part : parts) {
    const std::size_t pages = part.bytes / kPage;
    Compare<<<kBlocks, kThreads>>>(part.at, pages, first, wrong);
    // Also checks the last page by a copy.
    CHECK(cudaMemcpy(page.data(), part.at + (pages - 1) * kPage, kPage, cudaMemcpyDeviceToHost));
    copied_wrong += page[0] != first + pages - 1;
    first += static_cast<unsigned>(pages);
  }
  unsigned found = 0;
  CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
  std::printf("counted %u of %u\n", rounds - static_cast<unsigned>(found + copied_wrong), rounds);
  return found + copied_wrong == 0 ? 0 : 1;
}
