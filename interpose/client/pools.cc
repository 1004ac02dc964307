#include "interpose/client/pools.h"

#include <algorithm>
#include <utility>

#include "common/round_up.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/ipc_memory.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kReservedUnit = 32 << 20;

}  // namespace

void MemoryPool::Reserve() {
  reserved = std::max(reserved, RoundUp(used, kReservedUnit));
  used_high = std::max(used_high, used);
  reserved_high = std::max(reserved_high, reserved);
}

void MemoryPool::KeepThreshold() {
  const std::uint64_t kept = std::min(reserved, release_threshold) / kReservedUnit * kReservedUnit;
  reserved = std::max(kept, RoundUp(used, kReservedUnit));
}

void MemoryPool::Trim(std::uint64_t keep) {
  const std::uint64_t kept = RoundUp(std::min(reserved, keep), kReservedUnit);
  reserved = std::max(kept, RoundUp(used, kReservedUnit));
}

std::shared_ptr<MemoryPool>& Pools::DefaultSlot(int device) {
  const auto index = static_cast<std::size_t>(device);
  if (defaults_.size() <= index) defaults_.resize(index + 1);
  if (defaults_[index] == nullptr) {
    defaults_[index] = std::make_shared<MemoryPool>(MemoryPool{NextHandle(), device, true});
    pools_.emplace(defaults_[index]->handle, defaults_[index]);
  }
  return defaults_[index];
}

std::shared_ptr<MemoryPool> Pools::Default(int device) {
  const MutexLock lock(mutex_);
  return DefaultSlot(device);
}

std::shared_ptr<MemoryPool> Pools::Current(int device) {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  return index < current_.size() && current_[index] != nullptr ? current_[index]
                                                               : DefaultSlot(device);
}

void Pools::SetCurrent(int device, std::shared_ptr<MemoryPool> pool) {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  if (current_.size() <= index) current_.resize(index + 1);
  current_[index] = std::move(pool);
}

std::shared_ptr<MemoryPool> Pools::Create(int device, std::uint64_t most) {
  auto pool = std::make_shared<MemoryPool>(MemoryPool{NextHandle(), device, false, most});
  const MutexLock lock(mutex_);
  pools_.emplace(pool->handle, pool);
  return pool;
}

std::shared_ptr<MemoryPool> Pools::Find(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  const auto known = pools_.find(handle);
  return known == pools_.end() ? nullptr : known->second;
}

CUresult Pools::Destroy(const std::shared_ptr<MemoryPool>& pool) {
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock lock(mutex_);
  pool->destroyed = true;
  pools_.erase(pool->handle);
  // If a device's current pool is destroyed, its default pool becomes current.
  std::replace(current_.begin(), current_.end(), pool, std::shared_ptr<MemoryPool>());
  return CUDA_SUCCESS;
}

CUresult Pools::Allocate(const std::shared_ptr<MemoryPool>& pool,
                         const std::shared_ptr<ContextConnection>& user, std::uint64_t bytes,
                         std::uint64_t* address) {
  if (pool->imported) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<ContextConnection> connection = user;
  if (user->device() != pool->device)
    if (const CUresult result = devices_.Open(pool->device, &connection); result != CUDA_SUCCESS)
      return result;
  {
    const MutexLock lock(mutex_);
    if (pool->most != 0 && (bytes > pool->most || pool->used > pool->most - bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (const CUresult result = connection->memory().Allocate(bytes, address); result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  blocks_[*address] = {pool, bytes, connection->number()};
  pool->used += bytes;
  pool->Reserve();
  return CUDA_SUCCESS;
}

std::shared_ptr<MemoryPool> Pools::PoolOf(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(address);
  return block != blocks_.end() ? block->second.pool : nullptr;
}

bool Pools::Holds(std::uint64_t address, bool of_shareable) {
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(address);
  return block != blocks_.end() && (!of_shareable || block->second.pool->shareable);
}

void Pools::AddImported(std::uint64_t address) {
  const MutexLock lock(mutex_);
  imported_.insert(address);
}

bool Pools::ForgetImported(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = imported_.find(address);
  if (found == imported_.end()) return false;
  imported_.erase(found);
  return true;
}

CUresult Pools::Free(std::uint64_t address) {
  if (ForgetImported(address)) return ipc_.Close(address);
  std::shared_ptr<ContextConnection> connection;
  std::shared_ptr<MemoryPool> pool;
  {
    const MutexLock lock(mutex_);
    const auto block = blocks_.find(address);
    if (block == blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
    pool = block->second.pool;
    connection = devices_.ConnectionNumbered(block->second.connection);
    if (connection == nullptr) return CUDA_ERROR_INVALID_VALUE;
    pool->used -= block->second.bytes;
    blocks_.erase(block);
  }
  return connection->memory().Free(address, [this, pool] {
    const MutexLock lock(mutex_);
    pool->KeepThreshold();
  });
}

void Pools::Remove(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  MemoryPool& pool = *block->second.pool;
  pool.used -= block->second.bytes;
  pool.KeepThreshold();
  blocks_.erase(block);
}

void Pools::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  const bool primary = ended.context().is_primary();
  const auto forget = [&](MemoryPool& pool) {
    if (pool.device != ended.device() || !primary) return;
    pool.used = pool.reserved = 0;
  };
  std::erase_if(blocks_, [&](const auto& entry) {
    const Block& block = entry.second;
    if (block.connection != ended.number()) return false;
    forget(*block.pool);
    if (!primary) {
      block.pool->used -= block.bytes;
      block.pool->KeepThreshold();
    }
    return true;
  });
  for (const auto& [handle, pool] : pools_) forget(*pool);
  // The device's next generation reuses these addresses.
  const auto gone = [&](std::uint64_t address) { return ended.memory().InWindow(address); };
  std::erase_if(imported_, gone);
}

}  // namespace cuspan
