// Handles given to callers: numbers, never pointers, looked up in a table each time. A wrong or
// stale handle is thus an error, not a crash. Numbers are not reused.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cuspan::softgpu {

enum class HandleKind : std::uint8_t {
  kContext = 1,
  kStream,
  kEvent,
  kModule,
  kFunction,
  kMemory,
  kArray,
  kMipmap,
  kGraph,
  kGraphNode,
  kGraphExec,
  kCondition,
  kLinkState
};

// Never a valid address, nor a small value with a meaning in CUDA (CU_STREAM_LEGACY and the like).
constexpr std::uint64_t MakeHandle(HandleKind kind, std::uint64_t number) {
  return (std::uint64_t{0x5000} | static_cast<std::uint64_t>(kind)) << 48 | number << 4;
}

// Threads: any.
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(HandleKind kind) : kind_(kind) {}

  std::uint64_t Add(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    const std::uint64_t handle = MakeHandle(kind_, next_++);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  // Returns null for an unknown handle.
  std::shared_ptr<T> Find(std::uint64_t handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // Returns any object accepted by `predicate`, or null.
  template <typename Predicate>
  std::shared_ptr<T> FindIf(Predicate predicate) const {
    std::shared_lock lock(mutex_);
    for (const auto& [handle, object] : objects_)
      if (predicate(*object)) return object;
    return nullptr;
  }

  std::shared_ptr<T> Remove(std::uint64_t handle) {
    std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  template <typename Predicate>
  void RemoveIf(Predicate predicate) {
    std::vector<std::shared_ptr<T>> removed;  // Destroyed after the unlock.
    std::unique_lock lock(mutex_);
    std::erase_if(objects_, [&](auto& entry) {
      if (!predicate(*entry.second)) return false;
      removed.push_back(std::move(entry.second));
      return true;
    });
    lock.unlock();
  }

 private:
  const HandleKind kind_;
  mutable std::shared_mutex mutex_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<T>> objects_;
};

// Conversions between numbers and the driver's opaque pointer types.
template <typename Handle>
std::uint64_t Number(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}
template <typename Handle>
Handle AsHandle(std::uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace cuspan::softgpu
