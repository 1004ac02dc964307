// Named barriers of a block (bar, barrier). A warp arrives when all its threads have arrived or
// exited. It counts as 32 threads (PTX ISA, "barrier").
#pragma once

#include <bit>
#include <cstdint>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/unit_set.h"

namespace cuspan::softgpu {

inline constexpr std::uint32_t kBarriers = 16;

// State of one barrier between two completions. It knows the block's units only by number. Block
// suspends and wakes them.
class Barrier {
 public:
  // bar.red votes of the arriving threads.
  struct Votes {
    bool reduces = false;  // True for bar.red.
    std::uint32_t threads = 0, votes = 0;
  };

  // True if the thread or warp has arrived and the barrier has not completed since. It must not
  // arrive again before.
  bool HasArrived(std::uint32_t unit) const { return arrived_.Has(unit); }
  // Counts the arrival of thread `unit`. `alive`: lanes of its warp not yet exited. `threads`:
  // number of threads the barrier waits for (0: the block).
  void Arrive(std::uint32_t unit, std::uint32_t alive, std::uint32_t threads, const Votes& votes) {
    Count(threads, votes);
    arrived_.Add(unit);
    if ((alive & ~arrived_.word(unit / 32)) == 0) warps_ |= 1u << unit / 32;
  }
  // Counts the arrival of all lanes of `warp` not yet exited.
  void ArriveWarp(std::uint32_t warp, std::uint32_t threads, const Votes& votes) {
    Count(threads, votes);
    arrived_.Add(warp);
    warps_ |= 1u << warp;
  }
  // Called when a thread of `warp` has exited; `alive`: lanes left. Not needed if units are warps.
  void ThreadExited(std::uint32_t warp, std::uint32_t alive) {
    const std::uint32_t lanes = arrived_.word(warp);
    if (lanes != 0 && (alive & ~lanes) == 0) warps_ |= 1u << warp;
  }

  // True if all have arrived. `warps_alive`: warps with threads left.
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
  // Restores the initial state.
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
  std::uint32_t warps_ = 0;  // Arrived warps.
  std::uint32_t population_ = 0, arrivals_ = 0;
  UnitSet arrived_, waiters_;
};

}  // namespace cuspan::softgpu
