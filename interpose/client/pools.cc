#include "interpose/client/pools.h"

#include <algorithm>
#include <utility>

#include "interpose/client/handles.h"

namespace cuspan {

Pools& Pools::Get() {
  static auto* const pools = new Pools;  // Never destroyed, as the session.
  return *pools;
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
  std::lock_guard lock(mutex_);
  return DefaultSlot(device);
}

std::shared_ptr<MemoryPool> Pools::Current(int device) {
  std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  return index < current_.size() && current_[index] != nullptr ? current_[index]
                                                               : DefaultSlot(device);
}

void Pools::SetCurrent(int device, std::shared_ptr<MemoryPool> pool) {
  std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  if (current_.size() <= index) current_.resize(index + 1);
  current_[index] = std::move(pool);
}

std::shared_ptr<MemoryPool> Pools::Create(int device, std::uint64_t most) {
  auto pool = std::make_shared<MemoryPool>(MemoryPool{NextHandle(), device, false, most});
  std::lock_guard lock(mutex_);
  pools_.emplace(pool->handle, pool);
  return pool;
}

std::shared_ptr<MemoryPool> Pools::Find(std::uint64_t handle) {
  std::lock_guard lock(mutex_);
  const auto known = pools_.find(handle);
  return known == pools_.end() ? nullptr : known->second;
}

CUresult Pools::Destroy(const std::shared_ptr<MemoryPool>& pool) {
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  pool->destroyed = true;
  pools_.erase(pool->handle);
  // A device whose current pool goes has its default one again.
  std::replace(current_.begin(), current_.end(), pool, std::shared_ptr<MemoryPool>());
  return CUDA_SUCCESS;
}

CUresult Pools::Allocate(Session& session, const std::shared_ptr<MemoryPool>& pool,
                         std::uint64_t bytes, std::uint64_t* address) {
  std::shared_ptr<Link> link;
  if (const CUresult result = session.OpenLink(pool->device, &link); result != CUDA_SUCCESS)
    return result;
  {
    std::lock_guard lock(mutex_);
    if (pool->most != 0 && (bytes > pool->most || pool->used > pool->most - bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (const CUresult result = link->memory().Allocate(bytes, address); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(mutex_);
  blocks_[*address] = {pool, bytes, link->number()};
  pool->used += bytes;
  pool->reserved += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  return CUDA_SUCCESS;
}

CUresult Pools::Free(Session& session, std::uint64_t address, const StreamTarget& target) {
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    if (kept_.contains(address)) return CUDA_SUCCESS;
    const auto block = blocks_.find(address);
    if (block == blocks_.end() || block->second.freed) return CUDA_ERROR_INVALID_VALUE;
    link = session.OpenedLink(block->second.pool->device);
    if (link == nullptr || link->number() != block->second.link) return CUDA_ERROR_INVALID_VALUE;
    block->second.freed = true;
    block->second.pool->used -= block->second.bytes;
  }
  return session.WhenReached(target, [this, address, link](CUresult result) {
    {
      std::lock_guard lock(mutex_);
      const auto block = blocks_.find(address);
      if (block == blocks_.end() || block->second.link != link->number())
        return;  // The device was reset.
      Release(block);
    }
    if (result == CUDA_SUCCESS) static_cast<void>(link->memory().Free(address));
  });
}

void Pools::Keep(std::uint64_t address, bool keep) {
  std::lock_guard lock(mutex_);
  if (keep)
    kept_.insert(address);
  else
    kept_.erase(address);
}

CUresult Pools::Forget(std::uint64_t address, bool* kept) {
  std::lock_guard lock(mutex_);
  *kept = kept_.contains(address);
  if (*kept) return CUDA_SUCCESS;
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return CUDA_SUCCESS;
  if (block->second.freed) return CUDA_ERROR_INVALID_VALUE;
  block->second.pool->used -= block->second.bytes;
  Release(block);
  return CUDA_SUCCESS;
}

void Pools::Release(std::map<std::uint64_t, Block>::iterator block) {
  block->second.pool->reserved -= block->second.bytes;
  blocks_.erase(block);
}

void Pools::ForgetLink(const Link& link) {
  std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    if (block->second.link == link.number()) {
      if (!block->second.freed) block->second.pool->used -= block->second.bytes;
      Release(block);
    }
    block = next;
  }
}

}  // namespace cuspan
