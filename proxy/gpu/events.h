// Driver events, used over and over: making one costs microseconds, recording one little.
#pragma once

#include <utility>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class EventPool;

// A driver event that goes back to its pool at the end. Empty by default.
class PooledEvent {
 public:
  PooledEvent() = default;
  PooledEvent(PooledEvent&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), event_(std::exchange(other.event_, nullptr)) {}
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~PooledEvent();
  CUevent get() const { return event_; }

 private:
  friend class EventPool;
  PooledEvent(EventPool* pool, CUevent event) : pool_(pool), event_(event) {}
  EventPool* pool_ = nullptr;
  CUevent event_ = nullptr;
};

// Events of one kind. Threads: any. Outlives its events.
class EventPool {
 public:
  // `flags` as cuEventCreate takes them.
  EventPool(const Driver& driver, unsigned flags) : driver_(driver), flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;

  // Gives an event; leaves `event` empty when the driver refuses. Taken before
  // the work that it is to mark: recording one fails only with the context.
  CUresult Take(PooledEvent& event);
  // Take, and record it in `stream`.
  CUresult Record(CUstream stream, PooledEvent& event);

 private:
  friend class PooledEvent;
  void Return(CUevent event);

  const Driver& driver_;
  const unsigned flags_;
  Mutex mutex_;
  std::vector<CUevent> free_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
