// Page-locked buffers between files and the device.
#pragma once

#include <cstddef>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class FileBuffers {
 public:
  static constexpr std::size_t kCount = 32;
  static constexpr std::size_t kBytes = std::size_t{2} << 20;

  FileBuffers() = default;
  ~FileBuffers();
  FileBuffers(const FileBuffers&) = delete;

  // Allocates them, if they are not yet. False if the memory can not be had, or not be page-locked:
  // the driver would then block in copies. Threads: one at a time, with the device's context; it
  // may take milliseconds.
  bool Allocate(const Driver& driver);

  // An aligned buffer of kBytes; null if all are in use, or before Allocate. Threads: any.
  std::byte* Acquire();
  void Return(std::byte* buffer);

 private:
  std::byte* memory_ = nullptr;
  Mutex mutex_;
  std::vector<std::byte*> free_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
