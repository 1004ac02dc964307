// Allocations and copies without streams, for programs that use this library as their libcuda.so.1.
// Proxies map memory at addresses of their own, and copy in streams.
#include <cstdint>
#include <map>
#include <mutex>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/physical.h"

namespace cuspan::softgpu {
namespace {

struct Allocations {
  std::mutex mutex;
  std::map<CUdeviceptr, std::size_t> bytes;  // Keys are addresses.
};
Allocations& All() {
  static auto* const kAll = new Allocations;
  return *kAll;
}

CUresult MapAt(CUdeviceptr address, std::size_t bytes, int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemGenericAllocationHandle memory = 0;
  CUSPAN_SOFT_RETURN_IF_ERROR(cuMemCreate(&memory, bytes, &properties, 0));
  const CUresult mapped = cuMemMap(address, bytes, 0, memory, 0);
  cuMemRelease(memory);  // The mapping keeps it.
  if (mapped != CUDA_SUCCESS) return mapped;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return cuMemSetAccess(address, bytes, &access, 1);
}

// After an operation in the legacy stream has begun.
CUresult Finish(CUresult begun) {
  return begun == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : begun;
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > context->memory().total()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t whole =
      (bytes + kMemoryGranularity - 1) / kMemoryGranularity * kMemoryGranularity;
  CUdeviceptr reserved = 0;
  CUSPAN_SOFT_RETURN_IF_ERROR(cuMemAddressReserve(&reserved, whole, 0, 0, 0));
  if (const CUresult result = MapAt(reserved, whole, context->device()); result != CUDA_SUCCESS) {
    cuMemUnmap(reserved, whole);
    cuMemAddressFree(reserved, whole);
    return result;
  }
  const std::lock_guard lock(All().mutex);
  All().bytes.emplace(reserved, whole);
  *address = reserved;
  return CUDA_SUCCESS;
}

// Waits for the device, since kernels may use the memory.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (address == 0) return CUDA_SUCCESS;
  CUSPAN_SOFT_RETURN_IF_ERROR(cuCtxSynchronize());
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(All().mutex);
    const auto found = All().bytes.find(address);
    if (found == All().bytes.end()) return CUDA_ERROR_INVALID_VALUE;
    bytes = found->second;
    All().bytes.erase(found);
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(cuMemUnmap(address, bytes));
  return cuMemAddressFree(address, bytes);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD8(CUdeviceptr address, unsigned char value,
                                            std::size_t count) {
  return Finish(cuMemsetD8Async(address, value, count, nullptr));
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr target, const void* source,
                                              std::size_t bytes) {
  return Finish(cuMemcpyHtoDAsync(target, source, bytes, nullptr));
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpyDtoH(void* target, CUdeviceptr source, std::size_t bytes) {
  return Finish(cuMemcpyDtoHAsync(target, source, bytes, nullptr));
}

}  // namespace cuspan::softgpu
