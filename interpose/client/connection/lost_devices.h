// Sentences about the devices lost by this process. They are part of CUDA's text of this error:
// frameworks put the text into their exceptions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "common/mutex.h"

namespace cuspan {

// Threads: any.
class LostDevices {
 public:
  // `sentence`: the lost device and the reason. `connection`: number of its connection.
  void Add(std::uint64_t connection, std::string sentence);
  // Removes a device after its reset.
  void Remove(std::uint64_t connection);
  // Text of CUDA_ERROR_DEVICE_UNAVAILABLE with the sentences of all lost devices; null if no device
  // is lost. Valid for the life of this object.
  const char* text() const { return text_.load(std::memory_order_acquire); }

 private:
  void Write() CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::uint64_t, std::string> lost_ CUSPAN_GUARDED_BY(mutex_);
  // All texts ever returned: callers may keep the pointers.
  std::deque<std::string> texts_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<const char*> text_{nullptr};
};

}  // namespace cuspan
