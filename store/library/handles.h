// Handles of the C functions. No handle is given twice, so one that has ended is always recognised.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"

namespace cuspan::store {

// Threads: any.
template <typename T>
class Handles {
 public:
  // `what`: for messages.
  explicit Handles(const char* what) : what_(what) {}

  template <typename Handle>
  Handle Add(std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return reinterpret_cast<Handle>(last_);  // NOLINT: never dereferenced.
  }
  // kNotFound for ended and foreign ones.
  Result<std::shared_ptr<T>> Find(const void* handle) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) return Status::NotFound("the {} is not open", what_);
    return found->second;
  }
  // The same, and ends the handle.
  Result<std::shared_ptr<T>> Take(const void* handle) {
    const MutexLock lock(mutex_);
    auto taken = objects_.extract(reinterpret_cast<std::uintptr_t>(handle));
    if (taken.empty()) return Status::NotFound("the {} is not open", what_);
    return std::move(taken.mapped());
  }
  // Undoes Take.
  void PutBack(const void* handle, std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    objects_.emplace(reinterpret_cast<std::uintptr_t>(handle), std::move(object));
  }

 private:
  const char* const what_;
  mutable Mutex mutex_;
  std::uintptr_t last_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uintptr_t, std::shared_ptr<T>> objects_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::store
