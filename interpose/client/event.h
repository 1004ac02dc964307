// An event as the client knows it. Its completions are pushed by the proxy, so
// asking about it crosses nothing.
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
  const std::shared_ptr<ContextConnection> connection;  // The proxy that has it.
  const unsigned flags;

  // Held while a record is numbered and posted, so that both orders agree. Never
  // taken by the receiver thread, since posting may wait for it.
  Mutex recording;
  std::atomic<std::uint64_t> recorded = 0;  // Number of the last record posted.
  std::atomic<bool> destroyed = false;  // By the program; it is kept until all records are reached.

  // Written by the thread that receives, on lines of their own.
  alignas(64) std::atomic<std::uint64_t> reached = 0;  // Number of the last one known complete.
  std::atomic<int> result = CUDA_SUCCESS;

  bool complete() const { return reached.load() >= recorded.load(); }
  CUresult failure() const { return static_cast<CUresult>(result.load()); }

  // How many wait for it in one of the ways below. Counted before they look whether it is reached,
  // and looked at after it is: so one of the two sees the other.
  alignas(64) std::atomic<unsigned> attended = 0;
  Mutex mutex;
  std::condition_variable changed;
  // Streams of other devices that are held until `record` itself is reached: records of several
  // streams may be reached in another order than they were made in.
  struct Held {
    std::uint64_t record;
    std::weak_ptr<ContextConnection> connection;
    std::uint64_t signal;
  };
  std::vector<Held> held CUSPAN_GUARDED_BY(mutex);
  // Called once, without locks, by the thread that receives, when the first record is
  // reached or the device is lost.
  std::function<void(CUresult)> then CUSPAN_GUARDED_BY(mutex);
};

}  // namespace cuspan
