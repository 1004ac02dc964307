// Work of the worker with all streams held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "protocol/channel/bell.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class WorkerHolds {
 public:
  // All outlive it. `bell` is the receiving thread's.
  WorkerHolds(StreamQueues& queues, Worker& worker, Bell& bell)
      : queues_(queues), worker_(worker), bell_(bell) {}

  // The worker does work(). Until then no stream goes on, nor after it before LetDone.
  void HoldDuring(std::function<void()> work) CUSPAN_REQUIRES(receiving_thread) {
    queues_.HoldAll();
    worker_.Run([this, work = std::move(work)] {
      work();
      done_.fetch_add(1, std::memory_order_release);
      bell_.Ring();
    });
  }
  // Whether some of it is done, and the streams are still held. Cheap.
  bool SomeDone() const CUSPAN_REQUIRES(receiving_thread) {
    return done_.load(std::memory_order_acquire) != let_;
  }
  void LetDone() CUSPAN_REQUIRES(receiving_thread) {
    for (const std::uint64_t done = done_.load(std::memory_order_acquire); let_ != done; ++let_)
      queues_.LetAll();
  }

 private:
  StreamQueues& queues_;
  Worker& worker_;
  Bell& bell_;
  std::atomic<std::uint64_t> done_ = 0;                        // By the worker.
  std::uint64_t let_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Of these.
};

}  // namespace cuspan::proxy
