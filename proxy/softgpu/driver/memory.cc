// cuMem*: virtual memory management, registered host memory and copies.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/pace.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {
namespace {

// Unregistered host memory up to this size is copied before the call returns. For larger sizes, the
// call waits for the copy (CUDA Driver API, "API synchronization behavior").
constexpr std::size_t kMaxSnapshotBytes = 64 * 1024;

constexpr unsigned kRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult CheckProperties(const Driver& driver, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->location.id < 0 ||
      static_cast<std::size_t>(properties->location.id) >= driver.devices.size()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const bool known_handles =
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return known_handles ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// True if the whole range is mapped in the process.
bool IsMapped(std::uint64_t address, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = address / page * page;
  if (address > UINT64_MAX - bytes - page) return false;
  const std::uint64_t end = (address + bytes + page - 1) / page * page;
  // Chunks limit the result of mincore, one byte per page.
  std::vector<unsigned char> pages(1024);
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t length = std::min<std::uint64_t>(end - at, pages.size() * page);
    if (mincore(reinterpret_cast<void*>(at), length, pages.data()) != 0) return false;
    at += length;
  }
  return true;
}

// True if copies may access the host range after the call returns.
bool IsPinned(const Driver& driver, const void* host, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(host);
  return driver.host_memory.Contains(address, bytes) || driver.addresses.IsDevice(address);
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuMemGetInfo(std::size_t* free, std::size_t* total) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *free = context->memory().free();
  *total = context->memory().total();
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes,
                                                     std::size_t alignment, CUdeviceptr hint,
                                                     unsigned long long flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t reserved = 0;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->addresses.Reserve(bytes, alignment, hint, &reserved));
  *address = reserved;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  CUSPAN_SOFT_ENTER(driver);
  return driver->addresses.Free(address, bytes);
}

CUSPAN_SOFT_API CUresult CUDAAPI
cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                              CUmemAllocationGranularity_flags option) {
  CUSPAN_SOFT_ENTER(driver);
  if (granularity == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckProperties(*driver, properties));
  *granularity = kMemoryGranularity;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle,
                                             std::size_t bytes,
                                             const CUmemAllocationProp* properties,
                                             unsigned long long flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (handle == nullptr || bytes == 0 || bytes % kMemoryGranularity != 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckProperties(*driver, properties));
  PhysicalMemory& device = *driver->FindDevice(properties->location.id)->memory;
  const bool shareable = properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  auto memory = shareable ? device.AllocateShareable(bytes) : device.Allocate(bytes);
  if (!memory.ok()) {
    LogInfo("{}", memory.status().message());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = driver->memory.Add(std::move(*memory));
  return CUDA_SUCCESS;
}

// The caller owns the descriptor; it keeps the memory until closed.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemExportToShareableHandle(void* exported,
                                                              CUmemGenericAllocationHandle handle,
                                                              CUmemAllocationHandleType type,
                                                              unsigned long long flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (exported == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<PhysicalAllocation> memory = driver->memory.Find(handle);
  if (memory == nullptr || !memory->shareable()) return CUDA_ERROR_INVALID_VALUE;
  const int copy = fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(exported) = copy;
  return CUDA_SUCCESS;
}

// The caller keeps owning the descriptor.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemImportFromShareableHandle(
    CUmemGenericAllocationHandle* handle, void* exported, CUmemAllocationHandleType type) {
  CUSPAN_SOFT_ENTER(driver);
  if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  auto memory = driver->FindDevice(context->device())
                    ->memory->Import(static_cast<int>(reinterpret_cast<std::intptr_t>(exported)));
  if (!memory.ok()) {
    LogInfo("{}", memory.status().message());
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = driver->memory.Add(std::move(*memory));
  return CUDA_SUCCESS;
}

// Mappings keep the memory until they are removed.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  CUSPAN_SOFT_ENTER(driver);
  return driver->memory.Remove(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemMap(CUdeviceptr address, std::size_t bytes,
                                          std::size_t offset, CUmemGenericAllocationHandle handle,
                                          unsigned long long flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<PhysicalAllocation> memory = driver->memory.Find(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return driver->addresses.Map(address, bytes, std::move(memory));
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  CUSPAN_SOFT_ENTER(driver);
  return driver->addresses.Unmap(address, bytes);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, std::size_t bytes,
                                                const CUmemAccessDesc* access, std::size_t count) {
  CUSPAN_SOFT_ENTER(driver);
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const bool known_flags = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                             access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                             access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !known_flags ||
        driver->FindDevice(access[i].location.id) == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    CUSPAN_SOFT_RETURN_IF_ERROR(driver->addresses.SetAccess(
        address, bytes, access[i].location.id, access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
        access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  }
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemHostRegister(void* memory, std::size_t bytes,
                                                   unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (memory == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0 ||
      !IsMapped(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->host_memory.Register(address, bytes));
  driver->addresses.AddHost(address, bytes);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemHostUnregister(void* memory) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver->MayWait(*context);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->host_memory.Unregister(address));
  driver->addresses.RemoveFixed(address);
  return CUDA_SUCCESS;
}

// Devices use host addresses directly.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* device, void* memory,
                                                           unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (device == nullptr || flags != 0 || !driver->host_memory.Contains(address, 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *device = address;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr target, const void* source,
                                                   std::size_t bytes, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  if (bytes == 0) return CUDA_SUCCESS;
  if (source == nullptr ||
      !driver->addresses.Accessible(target, bytes, entry.context->device(), true)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool pinned = IsPinned(*driver, source, bytes);
  Pace* const pace = &driver->FindDevice(entry.context->device())->to_device;
  std::unique_ptr<Task> task;
  if (!pinned && bytes <= kMaxSnapshotBytes) {
    const auto* from = static_cast<const std::uint8_t*>(source);
    task = std::make_unique<CopyTask>(reinterpret_cast<void*>(target),
                                      std::vector<std::uint8_t>(from, from + bytes),
                                      entry.stream->priority(), entry.context, pace);
  } else {
    task = std::make_unique<CopyTask>(reinterpret_cast<void*>(target), source, bytes,
                                      entry.stream->priority(), entry.context, pace);
  }
  const OperationPtr copy = entry.context->streams().Enqueue(*entry.stream, std::move(task));
  if (pinned || bytes <= kMaxSnapshotBytes) return CUDA_SUCCESS;
  copy->Wait();
  return entry.context->error();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpyDtoHAsync(void* target, CUdeviceptr source,
                                                   std::size_t bytes, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  if (bytes == 0) return CUDA_SUCCESS;
  if (target == nullptr ||
      !driver->addresses.Accessible(source, bytes, entry.context->device(), false)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const OperationPtr copy = entry.context->streams().Enqueue(
      *entry.stream,
      std::make_unique<CopyTask>(target, reinterpret_cast<const void*>(source), bytes,
                                 entry.stream->priority(), entry.context,
                                 &driver->FindDevice(entry.context->device())->from_device));
  if (IsPinned(*driver, target, bytes)) return CUDA_SUCCESS;
  copy->Wait();
  return entry.context->error();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source,
                                                   std::size_t bytes, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  if (bytes == 0) return CUDA_SUCCESS;
  const int device = entry.context->device();
  if (!driver->addresses.Accessible(target, bytes, device, true) ||
      !driver->addresses.Accessible(source, bytes, device, false)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  entry.context->streams().Enqueue(
      *entry.stream, std::make_unique<CopyTask>(reinterpret_cast<void*>(target),
                                                reinterpret_cast<const void*>(source), bytes,
                                                entry.stream->priority(), entry.context));
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
