// The client's state of an event. The proxy pushes completions: queries send no message.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

class ContextConnection;

struct Event {
  Event(std::uint64_t id, std::shared_ptr<ContextConnection> connection, unsigned flags)
      : id(id), connection(std::move(connection)), flags(flags) {}
  const std::uint64_t id;
  const std::shared_ptr<ContextConnection> connection;  // Connection to its proxy.
  const unsigned flags;

  // Held while a record is numbered and posted, to keep both in one order. Never taken by the
  // receiver thread: posting may wait for it.
  Mutex recording;
  std::atomic<std::uint64_t> recorded = 0;  // Number of the last record posted.
  // Destroyed by the program; kept until all records are reached.
  std::atomic<bool> destroyed = false;

  // Written by the receiving thread; on separate cache lines.
  alignas(64) std::atomic<std::uint64_t> reached = 0;  // Number of the last record known complete.
  // Its time, EventReached::time. Meaningless for an event without times.
  std::atomic<double> time = 0;
  std::atomic<int> result = CUDA_SUCCESS;

  bool complete() const { return reached.load() >= recorded.load(); }
  CUresult failure() const { return static_cast<CUresult>(result.load()); }

  // Number of waits of the kinds below. Incremented before a waiter checks `reached`, and checked
  // after `reached` is set: one of the two sees the other.
  alignas(64) std::atomic<unsigned> attended = 0;
  Mutex mutex;
  std::condition_variable changed;
  // Streams of other devices held until `record` itself is reached: records of several streams may
  // be reached out of order.
  struct Held {
    std::uint64_t record;
    std::weak_ptr<ContextConnection> connection;
    std::uint64_t signal;
  };
  std::vector<Held> held CUSPAN_GUARDED_BY(mutex);
  // Called once, without locks, by the receiving thread, when the first record is reached or the
  // device is lost.
  std::function<void(CUresult)> then CUSPAN_GUARDED_BY(mutex);
};

}  // namespace cuspan
