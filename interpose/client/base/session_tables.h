// Tables of a session, one per type, for layers above the client.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

// Number of a type of table, counted from 0 in the order of first use in the process.
inline std::size_t NextTableNumber() {
  static std::atomic<std::size_t> next{0};
  return next.fetch_add(1);
}
template <typename Table>
std::size_t TableNumber() {
  static const std::size_t number = NextTableNumber();
  return number;
}

// Threads: any.
class SessionTables {
 public:
  // Returns the table of this type. Makes it at the first use and calls made(Table&), before any
  // other thread gets the table. `made` must not use tables. Without a lock except at the first
  // use.
  template <typename Table, typename Made>
  Table& Of(Made&& made) {
    std::atomic<void*>& entry = entries_.at(TableNumber<Table>());
    if (void* const known = entry.load(std::memory_order_acquire); known != nullptr) [[likely]]
      return *static_cast<Table*>(known);
    const MutexLock lock(mutex_);
    if (void* const known = entry.load(std::memory_order_relaxed); known != nullptr)
      return *static_cast<Table*>(known);
    auto table = std::make_shared<Table>();
    made(*table);
    owned_.push_back(table);
    entry.store(table.get(), std::memory_order_release);
    return *table;
  }

 private:
  static constexpr std::size_t kMaxTypes = 64;
  std::array<std::atomic<void*>, kMaxTypes> entries_{};
  Mutex mutex_;
  std::vector<std::shared_ptr<void>> owned_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
