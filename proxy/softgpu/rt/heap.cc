#include "proxy/softgpu/rt/heap.h"

#include <cstdlib>

namespace cuspan::softgpu {

DeviceHeap::~DeviceHeap() {
  for (const auto& [memory, bytes] : blocks_) std::free(memory);
}

void* DeviceHeap::Allocate(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes == 0 || bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) return nullptr;
  blocks_.emplace(memory, bytes);
  used_ += bytes;
  return memory;
}

bool DeviceHeap::Free(void* memory) {
  if (memory == nullptr) return true;
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return false;
  used_ -= found->second;
  blocks_.erase(found);
  std::free(memory);
  return true;
}

bool DeviceHeap::Contains(const void* memory, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(const_cast<void*>(memory));
  if (block == blocks_.begin()) return false;
  --block;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(memory) -
                                               static_cast<const char*>(block->first));
  return offset <= block->second && bytes <= block->second - offset;
}

std::size_t DeviceHeap::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

void DeviceHeap::SetLimit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

}  // namespace cuspan::softgpu
