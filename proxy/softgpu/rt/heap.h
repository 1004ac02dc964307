// What malloc and free called by kernels work on: one heap of a context, whose
// blocks live until freed or until the context ends.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cuspan::softgpu {

// Any thread calls.
class DeviceHeap {
 public:
  // CU_LIMIT_MALLOC_HEAP_SIZE as CUDA has it by default.
  static constexpr std::size_t kDefaultLimit = std::size_t{8} << 20;

  DeviceHeap() = default;
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  // 16-aligned memory, or null when `bytes` is 0 or exceeds what the limit leaves.
  void* Allocate(std::size_t bytes);
  // False when `memory` is not a live block of this heap. Null is allowed.
  bool Free(void* memory);

  // Whether all of the range lies in one live block.
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
