// Order of a block's threads beyond barriers: CUSPAN_SOFT_SCHEDULE, and the reconvergence of warps.
#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {

// Seeds the order: the same in each run, another for each block.
void Block::BeginOrder(std::uint64_t seed) {
  random_ = seed;
  const std::uint64_t mixed = std::uint64_t{Random()} << 32 | Random();
  random_ = mixed + index_;
}

void Block::LeaveIfCancelled() {
  if (launch_->errors->error() == CUDA_SUCCESS) return;
  failed_ = true;
  guard().LeaveForGood();
}

// SplitMix64, by Sebastiano Vigna.
std::uint32_t Block::Random() {
  std::uint64_t mixed = random_ += 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>(mixed ^ mixed >> 31);
}

void Block::Interleave(Fiber* self) {
  // Threads in random order also advance at different speeds.
  if (launch_->order && Random() % 4 != 0) return;
  LeaveIfCancelled();
  // Not a wait: activemask of its warp still waits for this thread.
  let_others_run_ = true;
  yielded_.Add(self->unit);
  Suspend(self);
}

void Block::Reconverge(std::uint64_t place) {
  Fiber* const self = current_;
  const std::uint32_t warp = current_unit_ / kWarpLanes;
  warps_[warp].Reconverge(current_unit_ % kWarpLanes, place);
  if (warps_[warp].running() == 0) CheckMeetings(warp, nullptr);
  Suspend(self);
}

}  // namespace cuspan::softgpu
