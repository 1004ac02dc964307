// Executes commands on the first device's memory, a line each on standard input, and answers with a
// line:
//
//   take BYTES     cudaMalloc: "taken", or the name of the error
//   create BYTES   cuMemCreate: the same
//   array WIDTH    cudaMallocArray of rows of WIDTH floats, 1,024 of them: the same
//   drop           frees all of it: "dropped"
//   info           "FREE TOTAL" of cudaMemGetInfo, and the device's totalGlobalMem
//   touch          fills all memory of "take", by the device: "touched"
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "check.h"

namespace {

std::vector<std::pair<void*, std::size_t>> taken;
std::vector<CUmemGenericAllocationHandle> created;
std::vector<cudaArray_t> arrays;

const char* Said(cudaError_t error) {
  if (error == cudaSuccess) return "taken";
  cudaGetLastError();
  return cudaGetErrorName(error);
}

const char* Take(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) taken.emplace_back(memory, bytes);
  return Said(error);
}

const char* Create(std::size_t bytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle memory = 0;
  const CUresult result = cuMemCreate(&memory, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) {
    created.push_back(memory);
    return "taken";
  }
  const char* name = "unknown";
  cuGetErrorName(result, &name);
  return name;
}

const char* TakeArray(std::size_t width) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  const cudaError_t error = cudaMallocArray(&array, &format, width, 1024);
  if (error == cudaSuccess) arrays.push_back(array);
  return Said(error);
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    char order[16] = {};
    unsigned long long bytes = 0;
    std::sscanf(line, "%15s %llu", order, &bytes);
    if (std::strcmp(order, "take") == 0) {
      std::puts(Take(bytes));
    } else if (std::strcmp(order, "create") == 0) {
      std::puts(Create(bytes));
    } else if (std::strcmp(order, "array") == 0) {
      std::puts(TakeArray(bytes));
    } else if (std::strcmp(order, "drop") == 0) {
      for (const auto& [memory, size] : taken) CHECK(cudaFree(memory));
      for (const CUmemGenericAllocationHandle memory : created)
        if (cuMemRelease(memory) != CUDA_SUCCESS) return 4;
      for (const cudaArray_t array : arrays) CHECK(cudaFreeArray(array));
      taken.clear();
      created.clear();
      arrays.clear();
      std::puts("dropped");
    } else if (std::strcmp(order, "info") == 0) {
      std::size_t free = 0, total = 0;
      cudaDeviceProp properties;
      CHECK(cudaMemGetInfo(&free, &total));
      CHECK(cudaGetDeviceProperties(&properties, 0));
      std::printf("%zu %zu %zu\n", free, total, properties.totalGlobalMem);
    } else if (std::strcmp(order, "touch") == 0) {
      for (const auto& [memory, size] : taken) CHECK(cudaMemset(memory, 1, size));
      CHECK(cudaDeviceSynchronize());
      std::puts("touched");
    } else {
      std::puts("what?");
    }
    std::fflush(stdout);
  }
  return 0;
}
