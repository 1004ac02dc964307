// Heap of a context for malloc and free in kernels. Its blocks live until freed or until the
// context ends.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cuspan::softgpu {

// Threads: any.
class DeviceHeap {
 public:
  // CUDA's default of CU_LIMIT_MALLOC_HEAP_SIZE.
  static constexpr std::size_t kDefaultLimit = std::size_t{8} << 20;

  DeviceHeap() = default;
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  // Returns 16-aligned memory, or null if `bytes` is 0 or exceeds the rest of the limit.
  void* Allocate(std::size_t bytes);
  // Returns false if `memory` is not a live block of this heap. Null is allowed.
  bool Free(void* memory);

  // True if all of the range is in one live block.
  bool Contains(const void* memory, std::size_t bytes) const;

  std::size_t limit() const;
  void SetLimit(std::size_t bytes);

 private:
  mutable std::mutex mutex_;
  std::size_t limit_ = kDefaultLimit;
  std::size_t used_ = 0;
  std::map<void*, std::size_t, std::less<>> blocks_;
};

}  // namespace cuspan::softgpu
