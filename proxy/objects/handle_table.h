// Tables of a session's objects.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"

namespace cuspan::proxy {

// Objects by the client's handle. A removed object exists until its last reference is released.
// Threads: any.
template <typename T>
class HandleTable {
 public:
  // `what`: the kind of object, for messages.
  explicit HandleTable(const char* what) : what_(what) {}

  // kInvalid if the handle is in use or 0.
  Status CheckNew(std::uint64_t handle) const {
    if (handle != 0 && Find(handle) == nullptr) return Status::Ok();
    return Status::Invalid("{} 0x{:x} is not a new handle", what_, handle);
  }
  // Returns false if the handle is in use or 0.
  bool Add(std::uint64_t handle, std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    return handle != 0 && objects_.emplace(handle, std::move(object)).second;
  }
  // Returns null if it does not exist.
  std::shared_ptr<T> Find(std::uint64_t handle) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // kInvalid if it does not exist.
  Result<std::shared_ptr<T>> Get(std::uint64_t handle) const {
    std::shared_ptr<T> object = Find(handle);
    if (object == nullptr) return None(handle);
    return object;
  }
  // The same; also removes it.
  Result<std::shared_ptr<T>> Take(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return None(handle);
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  void Remove(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    objects_.erase(handle);
  }
  template <typename Predicate>
  void RemoveIf(Predicate&& predicate) {
    const MutexLock lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  // Calls use(object) for all objects. It must not access the table.
  template <typename Use>
  void ForEach(Use&& use) const {
    const MutexLock lock(mutex_);
    for (const auto& [handle, object] : objects_) use(*object);
  }

 private:
  Status None(std::uint64_t handle) const {
    return Status::Invalid("{} 0x{:x} does not exist", what_, handle);
  }

  const char* const what_;
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<T>> objects_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
