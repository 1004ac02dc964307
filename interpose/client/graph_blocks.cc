#include "interpose/client/graph_blocks.h"

#include <utility>

#include "interpose/client/context_connection.h"

namespace cuspan {
namespace {

// Limits of the memory of destroyed graphs; beyond them the oldest is freed. CUDA keeps all of it
// until cudaDeviceGraphMemTrim.
constexpr std::uint64_t kMaxEndedBytes = 64 << 20;
constexpr std::size_t kMaxEnded = 1024;

}  // namespace

void GraphBlocks::Add(std::uint64_t address) {
  const MutexLock lock(mutex_);
  blocks_.emplace(address, Block{});
}

bool GraphBlocks::BelongsToGraph(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  return found != blocks_.end() && !found->second.ended;
}

bool GraphBlocks::Contains(std::uint64_t address) {
  const MutexLock lock(mutex_);
  return blocks_.contains(address);
}

bool GraphBlocks::Hand(std::uint64_t address, std::shared_ptr<const void> owner) {
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.owner != nullptr) return false;
  found->second.owner = std::move(owner);
  return true;
}

bool GraphBlocks::IsHanded(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  return found != blocks_.end() && found->second.owner != nullptr;
}

CUresult GraphBlocks::Reclaim(std::uint64_t address) {
  std::shared_ptr<const void> owner;
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.owner == nullptr) return CUDA_ERROR_INVALID_VALUE;
  owner = std::exchange(found->second.owner, nullptr);
  return CUDA_SUCCESS;
}

std::vector<std::uint64_t> GraphBlocks::End(std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::uint64_t> freed;
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return freed;
  found->second.ended = true;
  ended_.push_back({address, bytes});
  ended_bytes_ += bytes;
  while (ended_bytes_ > kMaxEndedBytes || ended_.size() > kMaxEnded) {
    freed.push_back(ended_.front().address);
    blocks_.erase(ended_.front().address);
    ended_bytes_ -= ended_.front().bytes;
    ended_.pop_front();
  }
  return freed;
}

std::vector<std::uint64_t> GraphBlocks::ExtractEnded(const ContextConnection& connection) {
  std::vector<std::uint64_t> taken;
  const MutexLock lock(mutex_);
  std::erase_if(ended_, [&](const Ended& block) CUSPAN_REQUIRES(mutex_) {
    if (!connection.memory().InWindow(block.address)) return false;
    taken.push_back(block.address);
    blocks_.erase(block.address);
    ended_bytes_ -= block.bytes;
    return true;
  });
  return taken;
}

void GraphBlocks::Forget(const ContextConnection& ended) {
  static_cast<void>(ExtractEnded(ended));
  std::vector<std::shared_ptr<const void>> owners;
  const MutexLock lock(mutex_);
  // The device's next generation reuses these addresses.
  std::erase_if(blocks_, [&](auto& entry) {
    if (!ended.memory().InWindow(entry.first)) return false;
    owners.push_back(std::move(entry.second.owner));
    return true;
  });
}

}  // namespace cuspan
