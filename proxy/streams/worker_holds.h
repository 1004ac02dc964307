// Tasks of the worker executed while all streams are held.
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
  // All references outlive it. `bell` wakes the receiving thread.
  WorkerHolds(StreamQueues& queues, Worker& worker, Bell& bell)
      : queues_(queues), worker_(worker), bell_(bell) {}

  // The worker runs work(). All streams are held from now until LetDone after its end.
  void HoldDuring(std::function<void()> work) CUSPAN_REQUIRES(receiving_thread) {
    queues_.HoldAll();
    worker_.Run([this, work = std::move(work)] {
      work();
      done_.fetch_add(1, std::memory_order_release);
      bell_.Ring();
    });
  }
  // True if work is done but the streams are still held for it. Cheap.
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
  std::atomic<std::uint64_t> done_ = 0;                        // Written by the worker.
  std::uint64_t let_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Released so far, of done_.
};

}  // namespace cuspan::proxy
