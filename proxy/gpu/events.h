// Reusable driver events: creating one takes microseconds, recording one little.
#pragma once

#include <utility>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class EventPool;

// A driver event, returned to its pool by the destructor. Empty by default.
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

// Events with equal flags. Threads: any. Outlives its events.
class EventPool {
 public:
  // `flags`: see cuEventCreate.
  EventPool(const Driver& driver, unsigned flags) : driver_(driver), flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;

  // Provides an event; leaves `event` empty if the driver refuses. To be taken before the work to
  // mark: afterwards, recording it fails only if the context is lost.
  CUresult Acquire(PooledEvent& event);
  // Takes an event and records it in `stream`.
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
