#include "proxy/softgpu/rt/barrier.h"

namespace cuspan::softgpu {

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

void Barrier::Reset() {
  in_use_ = reduces_ = false;
  threads_ = warps_ = population_ = arrivals_ = 0;
  arrived_.Clear();
  waiters_.Clear();
}

}  // namespace cuspan::softgpu
