// Work of a stream submitted by a thread other than the receiving one; see session/submitters.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class Submitter;

class DelegatedWork {
 public:
  // True if the driver does not have all of it yet.
  bool pending() const CUSPAN_REQUIRES(receiving_thread) {
    return given_ != submitted_.load(std::memory_order_acquire);
  }
  // The last thread; null before the first op.
  Submitter* submitter() const CUSPAN_REQUIRES(receiving_thread) { return submitter_; }
  // Stream::submitted after the last op.
  std::uint64_t place() const CUSPAN_REQUIRES(receiving_thread) { return place_; }

  // One more op is with `submitter`.
  void Give(Submitter* submitter, std::uint64_t place) CUSPAN_REQUIRES(receiving_thread) {
    ++given_;
    submitter_ = submitter;
    place_ = place;
  }
  // The driver has the oldest op. Threads: the submitter.
  void Submitted() { submitted_.fetch_add(1, std::memory_order_release); }

  // The receiving thread had to wait for the work before an op of its own: it would have been as
  // fast itself. For some launches the stream's work is not worth delegating.
  void Awaited() CUSPAN_REQUIRES(receiving_thread) { not_worth_ = kNotWorth; }
  // Counts a launch.
  bool Worth() CUSPAN_REQUIRES(receiving_thread) { return not_worth_ == 0 || --not_worth_ == 0; }

 private:
  static constexpr unsigned kNotWorth = 1000;

  std::uint64_t given_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t place_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  Submitter* submitter_ CUSPAN_GUARDED_BY(receiving_thread) = nullptr;
  unsigned not_worth_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  alignas(64) std::atomic<std::uint64_t> submitted_ = 0;  // On its own cache line.
};

}  // namespace cuspan::proxy
