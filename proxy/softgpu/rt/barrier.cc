#include "proxy/softgpu/rt/barrier.h"

#include <bit>

#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {

void Barrier::Arrive(std::uint32_t warp, std::uint32_t lane, std::uint32_t alive,
                     std::uint32_t threads, bool predicate) {
  if (!in_use_) threads_ = threads;
  in_use_ = true;
  ++arrivals_;
  population_ += predicate ? 1 : 0;
  lanes_[warp] |= 1u << lane;
  if ((alive & ~lanes_[warp]) == 0) warps_ |= 1u << warp;
}

void Barrier::ArriveWarp(std::uint32_t warp, std::uint32_t lanes, std::uint32_t threads,
                         std::uint32_t votes) {
  if (!in_use_) threads_ = threads;
  in_use_ = true;
  arrivals_ += static_cast<std::uint32_t>(std::popcount(lanes));
  population_ += static_cast<std::uint32_t>(std::popcount(votes));
  lanes_[warp] |= 1;
  warps_ |= 1u << warp;
}

void Barrier::ThreadExited(std::uint32_t warp, std::uint32_t alive) {
  if (lanes_[warp] != 0 && (alive & ~lanes_[warp]) == 0) warps_ |= 1u << warp;
}

bool Barrier::Complete(std::uint32_t warps_alive) const {
  if (!in_use_) return false;
  if (threads_ == 0) return (warps_alive & ~warps_) == 0;
  return static_cast<std::uint32_t>(std::popcount(warps_)) * 32 >= threads_;
}

std::uint32_t Barrier::Result(BarrierReduction reduction) const {
  switch (reduction) {
    case BarrierReduction::kPopulation:
      return population_;
    case BarrierReduction::kAnd:
      return population_ == arrivals_ ? 1 : 0;
    case BarrierReduction::kOr:
      return population_ != 0 ? 1 : 0;
  }
  return 0;
}

void Barrier::AddWaiter(Fiber* fiber) {
  fiber->next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = fiber;
  last_ = fiber;
}

Fiber* Barrier::Reset() {
  Fiber* waiters = first_;
  if (in_use_) *this = Barrier();
  return waiters;
}

}  // namespace cuspan::softgpu
