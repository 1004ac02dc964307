// What is known of a stream's work, kept here so that a program that asks about a stream again and
// again crosses nothing while nothing has changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace cuspan {

// How often anything came from a proxy that may tell the program how far the devices are. While
// that stays the same, what was not complete may be called so still, whatever it is by now: the
// program has no means to know better.
class News {
 public:
  // Called before the program can see what came.
  void Came() { count_.fetch_add(1); }
  std::uint64_t count() const { return count_.load(); }

 private:
  std::atomic<std::uint64_t> count_ = 0;
};

struct StreamProgress {
  // All that was posted to the stream up to this sequence is known to be complete.
  std::atomic<std::uint64_t> completed = 0;

  // The handle of an event of our own, 0 before the first: recorded behind what was found
  // incomplete, so that the proxy pushes when it is complete.
  std::atomic<std::uint64_t> mark = 0;
  // The sequence of its last record. Written after the event knows of that record: who reads this
  // first and finds the event complete then knows that this record is.
  std::atomic<std::uint64_t> marked = 0;
  std::mutex marking;
  // The news before the proxy was asked and said that the stream was not ready.
  std::atomic<std::uint64_t> not_ready_at = ~std::uint64_t{0};

  void Completed(std::uint64_t sequence) {
    std::uint64_t known = completed.load(std::memory_order_relaxed);
    while (known < sequence &&
           !completed.compare_exchange_weak(known, sequence, std::memory_order_release)) {
    }
  }
};

}  // namespace cuspan
