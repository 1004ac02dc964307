// The order of a block's threads where barriers alone do not decide it: CUSPAN_SOFT_SCHEDULE, and
// the reconvergence of warps.
#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {

// The same for each run, and another for each block.
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
  // Threads in a random order get on at different speeds, too.
  if (launch_->order && Random() % 4 != 0) return;
  LeaveIfCancelled();
  // It waits for nothing: who asks which threads of a warp are active still counts it.
  took_turn_ = true;
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
