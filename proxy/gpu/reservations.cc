#include "proxy/gpu/reservations.h"

#include <iterator>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "common/log.h"
#include "protocol/api/address_plan.h"

namespace cuspan::proxy {

Reservations::~Reservations() {
  for (const auto& [address, mapped] : mapped_)
    if (!mapped.allocation->out) driver_.cuMemUnmap(address, mapped.bytes);
  const MutexLock lock(mutex_);
  for (const auto& [number, made] : allocations_)
    if (!made->out) driver_.cuMemRelease(made->memory);
  for (const auto& allocation : out_) FreeScratch(*allocation);
  for (const std::uint64_t block : blocks_) driver_.cuMemAddressFree(block, kReservationBlock);
}

CUresult Reservations::AcquireBlock(std::uint64_t block) {
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
    if (const CUresult result = AcquireBlock(block); result != CUDA_SUCCESS) return result;
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
  auto made = std::make_shared<Allocation>();
  made->bytes = bytes;
  if (const CUresult result = device_.memory().Take(bytes, &made->taken); result != CUDA_SUCCESS)
    return result;
  const CUresult result = device_.memory().Obtain(
      bytes, [this, bytes, &made] { return CreateMemory(driver_, device_, bytes, &made->memory); });
  if (result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  allocations_[allocation] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult Reservations::Import(std::uint64_t allocation, const UniqueFd& file) {
  {
    const MutexLock lock(mutex_);
    if (allocations_.contains(allocation)) return CUDA_ERROR_INVALID_VALUE;
  }
  auto imported = std::make_shared<Allocation>();
  imported->imported = true;
  if (const CUresult result = driver_.cuMemImportFromShareableHandle(
          &imported->memory, reinterpret_cast<void*>(static_cast<std::intptr_t>(file.get())),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  allocations_[allocation] = std::move(imported);
  return CUDA_SUCCESS;
}

CUresult Reservations::Export(std::uint64_t allocation, UniqueFd* file) const {
  const MutexLock lock(mutex_);
  const auto found = allocations_.find(allocation);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (copies_ != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  int exported = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &exported, found->second->memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) *file = UniqueFd(exported);
  return result;
}

CUresult Reservations::End(std::uint64_t allocation) {
  std::shared_ptr<Allocation> ended;
  {
    const MutexLock lock(mutex_);
    const auto found = allocations_.find(allocation);
    if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
    ended = std::move(found->second);
    allocations_.erase(found);
  }
  ended->ended = true;
  return driver_.cuMemRelease(ended->memory);
}

CUresult Reservations::Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t allocation) {
  if (!Contains(address, bytes) || mapped_.contains(address)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Allocation> mapped;
  {
    const MutexLock lock(mutex_);
    const auto found = allocations_.find(allocation);
    if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
    mapped = found->second;
  }
  const CUresult result = driver_.cuMemMap(address, bytes, 0, mapped->memory, 0);
  if (result == CUDA_SUCCESS) mapped_[address] = {bytes, std::move(mapped)};
  return result;
}

CUresult Reservations::Unmap(std::uint64_t address, std::uint64_t bytes) {
  const auto found = mapped_.find(address);
  if (found == mapped_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = driver_.cuMemUnmap(address, bytes);
  if (result != CUDA_SUCCESS) return result;
  mapped_.erase(found);
  if (copies_ != nullptr) copies_->Forget(address);
  return result;
}

CUresult Reservations::SetAccess(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags) {
  if (!Contains(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Give(address, bytes, flags);
  if (result != CUDA_SUCCESS) return result;
  for (auto one = mapped_.lower_bound(address);
       one != mapped_.end() && one->first - address < bytes; ++one)
    one->second.access = flags;
  return result;
}

std::vector<Reservations::Going> Reservations::WhatMayGo(std::uint64_t bytes) const {
  std::vector<Going> going;
  std::set<const Allocation*> seen;
  std::uint64_t going_bytes = 0;
  const auto take = [&](const std::shared_ptr<Allocation>& allocation, std::uint64_t address) {
    if (going_bytes >= bytes || allocation->out || allocation->imported ||
        !seen.insert(allocation.get()).second)
      return;
    going.push_back({allocation, address});
    going_bytes += allocation->bytes;
  };
  // Allocations with host memory from an earlier swap go first.
  for (const bool known : {true, false})
    for (const auto& [address, mapped] : mapped_)
      if (mapped.access != 0 && copies_->Knows(address) == known) take(mapped.allocation, address);
  // Then allocations not readable at any address.
  for (const auto& [address, mapped] : mapped_) take(mapped.allocation, 0);
  const MutexLock lock(mutex_);
  for (const auto& [number, allocation] : allocations_) take(allocation, 0);
  return going;
}

CUresult Reservations::SwapOut(std::uint64_t bytes) {
  std::vector<Going> going = WhatMayGo(bytes);
  CUresult result = CUDA_SUCCESS;
  std::size_t saved = 0;
  while (saved < going.size() && result == CUDA_SUCCESS) {
    auto& [allocation, address] = going[saved];
    if (address == 0) {
      result = driver_.cuMemAddressReserve(&allocation->scratch, allocation->bytes, 0, 0, 0);
      if (result == CUDA_SUCCESS) result = MapScratch(*allocation);
      if (result != CUDA_SUCCESS) FreeScratch(*allocation);
      address = allocation->scratch;
    }
    if (result == CUDA_SUCCESS) result = copies_->Save(address, allocation->bytes);
    if (result == CUDA_SUCCESS)
      ++saved;
    else if (allocation->scratch != 0)
      driver_.cuMemUnmap(allocation->scratch, allocation->bytes), FreeScratch(*allocation);
  }
  const CUresult waited = copies_->Wait();
  going.resize(saved);
  for (const auto& [allocation, address] : going) {
    if (allocation->scratch != 0) driver_.cuMemUnmap(allocation->scratch, allocation->bytes);
    if (waited != CUDA_SUCCESS) continue;
    UnmapAll(*allocation);
    if (!allocation->ended) driver_.cuMemRelease(std::exchange(allocation->memory, 0));
    allocation->out = true;
    allocation->saved_from = address;
    out_.push_back(allocation);
  }
  return waited != CUDA_SUCCESS ? waited : result;
}

CUresult Reservations::SwapIn() {
  CUresult result = CUDA_SUCCESS;
  std::size_t back = 0;
  while (back < out_.size() && result == CUDA_SUCCESS) {
    Allocation& allocation = *out_[back];
    result = Back(allocation);
    if (result == CUDA_SUCCESS) result = copies_->Restore(allocation.saved_from);
    if (result == CUDA_SUCCESS) ++back;
  }
  if (const CUresult waited = copies_->Wait(); result == CUDA_SUCCESS) result = waited;
  for (std::size_t i = 0; i < back; ++i) {
    Allocation& allocation = *out_[i];
    CUresult set = CUDA_SUCCESS;
    if (allocation.scratch != 0) {
      driver_.cuMemUnmap(allocation.scratch, allocation.bytes);
      copies_->Forget(allocation.scratch);
      FreeScratch(allocation);
    } else if (const Mapped& saved = mapped_.at(allocation.saved_from);
               saved.access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      // Restore read-only access.
      set = Give(allocation.saved_from, saved.bytes, saved.access);
    }
    if (result == CUDA_SUCCESS) result = set;
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(back));
  return result;
}

CUresult Reservations::MapScratch(const Allocation& allocation) {
  const CUresult result =
      driver_.cuMemMap(allocation.scratch, allocation.bytes, 0, allocation.memory, 0);
  if (result != CUDA_SUCCESS) return result;
  const CUresult given =
      Give(allocation.scratch, allocation.bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (given != CUDA_SUCCESS) driver_.cuMemUnmap(allocation.scratch, allocation.bytes);
  return given;
}

void Reservations::FreeScratch(Allocation& allocation) {
  if (allocation.scratch == 0) return;
  driver_.cuMemAddressFree(std::exchange(allocation.scratch, 0), allocation.bytes);
}

CUresult Reservations::Give(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
  access.flags = static_cast<CUmemAccess_flags>(flags);
  return driver_.cuMemSetAccess(address, bytes, &access, 1);
}

CUresult Reservations::Back(Allocation& allocation) {
  if (const CUresult result = CreateMemory(driver_, device_, allocation.bytes, &allocation.memory);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = CUDA_SUCCESS;
  for (const auto& [address, mapped] : mapped_) {
    if (mapped.allocation.get() != &allocation || result != CUDA_SUCCESS) continue;
    result = driver_.cuMemMap(address, mapped.bytes, 0, allocation.memory, 0);
    // The address used for restoring must be writable.
    const std::uint32_t access =
        address == allocation.saved_from
            ? static_cast<std::uint32_t>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            : mapped.access;
    if (result == CUDA_SUCCESS && access != 0) result = Give(address, mapped.bytes, access);
  }
  if (result == CUDA_SUCCESS && allocation.scratch != 0) result = MapScratch(allocation);
  if (result != CUDA_SUCCESS) UnmapAll(allocation);
  if (result != CUDA_SUCCESS || allocation.ended)
    driver_.cuMemRelease(std::exchange(allocation.memory, 0));
  allocation.out = result != CUDA_SUCCESS;
  return result;
}

std::uint64_t Reservations::swapped_bytes() const {
  return std::accumulate(out_.begin(), out_.end(), std::uint64_t{0},
                         [](std::uint64_t bytes, const std::shared_ptr<Allocation>& allocation) {
                           return bytes + allocation->bytes;
                         });
}

void Reservations::UnmapAll(const Allocation& allocation) {
  for (const auto& [address, mapped] : mapped_)
    if (mapped.allocation.get() == &allocation) driver_.cuMemUnmap(address, mapped.bytes);
}

bool Reservations::Contains(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return bytes <= size && address - start <= size - bytes;
}

}  // namespace cuspan::proxy
