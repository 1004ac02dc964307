#include "proxy/gpu/reservations.h"

#include <iterator>

#include "common/log.h"
#include "protocol/api/address_plan.h"

namespace cuspan::proxy {

Reservations::~Reservations() {
  for (const auto& [address, mapped] : mapped_) driver_.cuMemUnmap(address, mapped.bytes);
  const MutexLock lock(mutex_);
  for (const auto& [number, made] : allocations_) driver_.cuMemRelease(made.memory);
  for (const std::uint64_t block : blocks_) driver_.cuMemAddressFree(block, kReservationBlock);
}

CUresult Reservations::TakeBlock(std::uint64_t block) {
  if (blocks_.contains(block)) return CUDA_SUCCESS;
  CUdeviceptr got = 0;
  if (const CUresult result = driver_.cuMemAddressReserve(&got, kReservationBlock, 0, block, 0);
      result != CUDA_SUCCESS)
    return result;
  if (got != block) {
    LogWarn("the driver reserves {} GiB of device addresses at 0x{:x}, not at 0x{:x}",
            kReservationBlock >> 30, got, block);
    driver_.cuMemAddressFree(got, kReservationBlock);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  blocks_.insert(block);
  return CUDA_SUCCESS;
}

CUresult Reservations::Reserve(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t first = address / kReservationBlock * kReservationBlock;
  for (std::uint64_t block = first; block < address + bytes; block += kReservationBlock)
    if (const CUresult result = TakeBlock(block); result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  reserved_[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult Reservations::Free(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = reserved_.find(address);
  if (found == reserved_.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mapped_.lower_bound(address);
  if (mapped != mapped_.end() && mapped->first - address < found->second)
    return CUDA_ERROR_INVALID_VALUE;
  reserved_.erase(found);
  return CUDA_SUCCESS;
}

CUresult Reservations::Make(std::uint64_t allocation, std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    if (allocations_.contains(allocation)) return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation made;
  if (const CUresult result = device_.memory().Take(bytes, &made.taken); result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = CreateMemory(driver_, device_, bytes, &made.memory);
      result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  allocations_[allocation] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult Reservations::Import(std::uint64_t allocation, const UniqueFd& file) {
  {
    const MutexLock lock(mutex_);
    if (allocations_.contains(allocation)) return CUDA_ERROR_INVALID_VALUE;
  }
  CUmemGenericAllocationHandle memory = 0;
  if (const CUresult result = driver_.cuMemImportFromShareableHandle(
          &memory, reinterpret_cast<void*>(static_cast<std::intptr_t>(file.get())),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  allocations_[allocation] = {memory, nullptr};
  return CUDA_SUCCESS;
}

CUresult Reservations::Export(std::uint64_t allocation, UniqueFd* file) const {
  const MutexLock lock(mutex_);
  const auto found = allocations_.find(allocation);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  int exported = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &exported, found->second.memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) *file = UniqueFd(exported);
  return result;
}

CUresult Reservations::End(std::uint64_t allocation) {
  Allocation ended;
  {
    const MutexLock lock(mutex_);
    const auto found = allocations_.find(allocation);
    if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
    ended = std::move(found->second);
    allocations_.erase(found);
  }
  return driver_.cuMemRelease(ended.memory);
}

CUresult Reservations::Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t allocation) {
  if (!Contains(address, bytes) || mapped_.contains(address)) return CUDA_ERROR_INVALID_VALUE;
  Allocation mapped;
  {
    const MutexLock lock(mutex_);
    const auto found = allocations_.find(allocation);
    if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
    mapped = found->second;
  }
  const CUresult result = driver_.cuMemMap(address, bytes, 0, mapped.memory, 0);
  if (result == CUDA_SUCCESS) mapped_[address] = {bytes, std::move(mapped.taken)};
  return result;
}

CUresult Reservations::Unmap(std::uint64_t address, std::uint64_t bytes) {
  const auto found = mapped_.find(address);
  if (found == mapped_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = driver_.cuMemUnmap(address, bytes);
  if (result == CUDA_SUCCESS) mapped_.erase(found);
  return result;
}

CUresult Reservations::SetAccess(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags) {
  if (!Contains(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
  access.flags = static_cast<CUmemAccess_flags>(flags);
  return driver_.cuMemSetAccess(address, bytes, &access, 1);
}

bool Reservations::Contains(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return bytes <= size && address - start <= size - bytes;
}

}  // namespace cuspan::proxy
