// A block's named barriers (bar, barrier): a warp arrives when all its threads
// that have not exited did, and counts as 32 threads (PTX ISA, "barrier").
#pragma once

#include <array>
#include <cstdint>

#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu {

struct Fiber;

inline constexpr std::uint32_t kBarriers = 16;

// The state of one barrier between two completions. Knows nothing of fibers
// but their list; Block makes threads wait and wakes them.
class Barrier {
 public:
  // True when thread `lane` of `warp` arrived already and the barrier has not
  // completed since: it must not arrive again before that.
  bool HasArrived(std::uint32_t warp, std::uint32_t lane) const {
    return (lanes_[warp] >> lane & 1) != 0;
  }
  // Thread `lane` of `warp` arrives; `threads` is how many the barrier waits
  // for (0: the block), `predicate` is for bar.red. `alive` are the warp's lanes
  // that have not exited.
  void Arrive(std::uint32_t warp, std::uint32_t lane, std::uint32_t alive, std::uint32_t threads,
              bool predicate);
  // Lanes of `warp`, all that have not exited, arrive; `votes` of them with a true predicate.
  void ArriveWarp(std::uint32_t warp, std::uint32_t lanes, std::uint32_t threads,
                  std::uint32_t votes);
  // A thread of `warp` exited; `alive` are the lanes left.
  void ThreadExited(std::uint32_t warp, std::uint32_t alive);

  // Whether everybody is there. `warps_alive` are the warps with threads left.
  bool Complete(std::uint32_t warps_alive) const;
  bool InUse() const { return in_use_; }
  std::uint32_t Result(BarrierReduction reduction) const;

  void AddWaiter(Fiber* fiber);
  // The waiting threads in order of arrival, linked by Fiber::next; the barrier is as new.
  Fiber* Reset();

  std::uint32_t arrived_warps() const { return warps_; }
  std::uint32_t expected_threads() const { return threads_; }

 private:
  bool in_use_ = false;
  std::uint32_t threads_ = 0;
  std::uint32_t warps_ = 0;                // Warps that have arrived.
  std::array<std::uint32_t, 32> lanes_{};  // By warp: lanes that have arrived.
  std::uint32_t population_ = 0, arrivals_ = 0;
  Fiber* first_ = nullptr;
  Fiber* last_ = nullptr;
};

}  // namespace cuspan::softgpu
