// A block's named barriers (bar, barrier): a warp arrives when all its threads
// that have not exited did, and counts as 32 threads (PTX ISA, "barrier").
#pragma once

#include <bit>
#include <cstdint>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/unit_set.h"

namespace cuspan::softgpu {

inline constexpr std::uint32_t kBarriers = 16;

// The state of one barrier between two completions. Knows the block's units by their
// numbers only; Block makes them wait and wakes them.
class Barrier {
 public:
  // What bar.red combines of the arriving threads.
  struct Votes {
    bool reduces = false;  // It is a bar.red.
    std::uint32_t threads = 0, votes = 0;
  };

  // True when the thread or warp arrived already and the barrier has not
  // completed since: it must not arrive again before that.
  bool HasArrived(std::uint32_t unit) const { return arrived_.Has(unit); }
  // Thread `unit` arrives, of a warp whose lanes `alive` have not exited; `threads` is how
  // many the barrier waits for (0: the block).
  void Arrive(std::uint32_t unit, std::uint32_t alive, std::uint32_t threads, const Votes& votes) {
    Count(threads, votes);
    arrived_.Add(unit);
    if ((alive & ~arrived_.word(unit / 32)) == 0) warps_ |= 1u << unit / 32;
  }
  // All lanes of `warp` that have not exited arrive.
  void ArriveWarp(std::uint32_t warp, std::uint32_t threads, const Votes& votes) {
    Count(threads, votes);
    arrived_.Add(warp);
    warps_ |= 1u << warp;
  }
  // A thread of `warp` exited; `alive` are the lanes left. Of warps that are units nothing needs
  // to be told.
  void ThreadExited(std::uint32_t warp, std::uint32_t alive) {
    const std::uint32_t lanes = arrived_.word(warp);
    if (lanes != 0 && (alive & ~lanes) == 0) warps_ |= 1u << warp;
  }

  // Whether everybody is there. `warps_alive` are the warps with threads left.
  bool Complete(std::uint32_t warps_alive) const {
    if (!in_use_) return false;
    if (threads_ == 0) return (warps_alive & ~warps_) == 0;
    return static_cast<std::uint32_t>(std::popcount(warps_)) * 32 >= threads_;
  }
  bool InUse() const { return in_use_; }
  bool reduces() const { return reduces_; }
  std::uint32_t Result(BarrierReduction reduction) const;

  void AddWaiter(std::uint32_t unit) { waiters_.Add(unit); }
  const UnitSet& waiters() const { return waiters_; }
  const UnitSet& arrived() const { return arrived_; }
  // As new.
  void Reset();

  std::uint32_t arrived_warps() const { return warps_; }
  std::uint32_t expected_threads() const { return threads_; }

 private:
  void Count(std::uint32_t threads, const Votes& votes) {
    if (!in_use_) threads_ = threads;
    in_use_ = true;
    if (!votes.reduces) return;
    reduces_ = true;
    arrivals_ += votes.threads;
    population_ += votes.votes;
  }

  bool in_use_ = false;
  bool reduces_ = false;
  std::uint32_t threads_ = 0;
  std::uint32_t warps_ = 0;  // Warps that have arrived.
  std::uint32_t population_ = 0, arrivals_ = 0;
  UnitSet arrived_, waiters_;
};

}  // namespace cuspan::softgpu
