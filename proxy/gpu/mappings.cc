#include "proxy/gpu/mappings.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// What was mapped there goes; the addresses stay taken.
void ReserveAgain(void* at, std::uint64_t bytes) {
  if (::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
    LogError("cannot unmap a part of the shared region: {}", std::strerror(errno));
}

}  // namespace

Mappings::~Mappings() {
  for (const auto& [address, mapped] : mapped_) {
    if (IsFile(address, mapped.bytes)) {
      UnmapFile(address, mapped.bytes);
      continue;
    }
    driver_.cuMemUnmap(address, mapped.bytes);
    driver_.cuMemRelease(mapped.memory);
  }
}

CUresult Mappings::Map(std::uint64_t address, std::uint64_t bytes) {
  if (Meets(address, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  if (IsFile(address, bytes)) {
    const CUresult result = MapFile(address, bytes);
    const MutexLock lock(mutex_);
    if (result == CUDA_SUCCESS) mapped_[address] = {bytes, 0, nullptr};
    return result;
  }
  if (!device_.MayMap(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  MemoryAccount::Taken taken;
  if (const CUresult result = device_.memory().Take(bytes, &taken); result != CUDA_SUCCESS)
    return result;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle memory = 0;
  if (const CUresult result = CreateMemory(driver_, device_, bytes, &memory);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = driver_.cuMemMap(address, bytes, 0, memory, 0);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, bytes);
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(memory);
    return result;
  }
  const MutexLock lock(mutex_);
  mapped_[address] = {bytes, memory, std::move(taken)};
  return CUDA_SUCCESS;
}

CUresult Mappings::Export(std::uint64_t address, std::uint64_t bytes, UniqueFd* file) {
  CUmemGenericAllocationHandle trial = 0;
  if (address == 0 && bytes == 0) {
    if (const CUresult result = CreateMemory(driver_, device_, kTrialBytes, &trial);
        result != CUDA_SUCCESS)
      return result;
  }
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  {
    // Held meanwhile, so that the memory stays.
    const MutexLock lock(mutex_);
    const auto found = mapped_.find(address);
    CUmemGenericAllocationHandle memory = trial;
    if (trial == 0 && found != mapped_.end() && found->second.bytes == bytes)
      memory = found->second.memory;
    int exported = -1;
    if (memory != 0)
      result = driver_.cuMemExportToShareableHandle(&exported, memory,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS) *file = UniqueFd(exported);
  }
  if (trial != 0) driver_.cuMemRelease(trial);
  return result;
}

CUresult Mappings::Unmap(std::uint64_t address, std::uint64_t bytes) {
  CUmemGenericAllocationHandle memory = 0;
  MemoryAccount::Taken taken;  // Until the driver has it back.
  {
    const MutexLock lock(mutex_);
    const auto found = mapped_.find(address);
    if (found == mapped_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    memory = found->second.memory;
    taken = found->second.taken;
  }
  if (!IsFile(address, bytes))
    if (const CUresult result = driver_.cuMemUnmap(address, bytes); result != CUDA_SUCCESS)
      return result;
  {
    const MutexLock lock(mutex_);
    mapped_.erase(address);
  }
  return IsFile(address, bytes) ? UnmapFile(address, bytes) : driver_.cuMemRelease(memory);
}

CUresult Mappings::MapFile(std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device_.shared_file(),
             static_cast<off_t>(address - device_.shared().base)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = driver_.cuMemHostRegister(
      at, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) {
    // One address for all is what the region is for.
    CUdeviceptr mapped = 0;
    result = driver_.cuMemHostGetDevicePointer(&mapped, at, 0);
    if (result == CUDA_SUCCESS && mapped != address) result = CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS) driver_.cuMemHostUnregister(at);
  }
  if (result != CUDA_SUCCESS) ReserveAgain(at, bytes);
  return result;
}

CUresult Mappings::UnmapFile(std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  const CUresult result = driver_.cuMemHostUnregister(at);
  ReserveAgain(at, bytes);
  return result;
}

bool Mappings::Meets(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto after = mapped_.lower_bound(address);
  if (after != mapped_.end() && after->first - address < bytes) return true;
  if (after == mapped_.begin()) return false;
  const auto before = std::prev(after);
  return address - before->first < before->second.bytes;
}

}  // namespace cuspan::proxy
