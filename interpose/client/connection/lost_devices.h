// What is known of the devices that this process has lost, in words, for CUDA's text of that error:
// frameworks put the text into their exceptions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "common/mutex.h"

namespace cuspan {

// Any thread.
class LostDevices {
 public:
  // `sentence` says which device was lost, and why; `connection` is the number of its connection.
  void Add(std::uint64_t connection, std::string sentence);
  // The device was reset: it is lost no more.
  void Remove(std::uint64_t connection);
  // The text of CUDA_ERROR_DEVICE_UNAVAILABLE, with the sentences of all that are lost; null where
  // none is. It stays valid for the life of this object.
  const char* text() const { return text_.load(std::memory_order_acquire); }

 private:
  void Write() CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::uint64_t, std::string> lost_ CUSPAN_GUARDED_BY(mutex_);
  // All that were ever given out: who has one may keep it.
  std::deque<std::string> texts_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<const char*> text_{nullptr};
};

}  // namespace cuspan
