// Messages of a failing block: location and reason.
#include <signal.h>

#include <bit>
#include <utility>

#include "common/format.h"
#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {
namespace {

const char* SignalName(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "access to an address that is not mapped";
    case SIGBUS:
      return "access to memory that the host cannot provide";
    case SIGFPE:
      return "arithmetic trap";
    default:
      return "illegal instruction";
  }
}

}  // namespace

void Block::HandleFault() {
  const Fault& fault = guard().fault();
  if (fault.signal == 0) {
    Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a stack");
    return;
  }
  if (current_->stack->InGuard(fault.address)) {
    // Same error as a GPU's for a stack overflow (observed on an H200).
    Fail(CUDA_ERROR_ILLEGAL_ADDRESS, Format("{}: its stack of {} bytes overflowed",
                                            Whereabouts(current_), current_->stack->bytes));
    return;
  }
  const CUresult error =
      fault.signal == SIGILL ? CUDA_ERROR_ILLEGAL_INSTRUCTION : CUDA_ERROR_ILLEGAL_ADDRESS;
  Fail(error, Format("{}: {} ({})", Whereabouts(current_), SignalName(fault.signal),
                     static_cast<const void*>(fault.address)));
}

// Records the error on any stack. Resume raises it on the worker's own.
void Block::Fail(CUresult error, std::string what) {
  failed_ = true;
  error_ = error;
  message_ = std::move(what);
}

std::string Block::Where(const Fiber* fiber) const {
  const ThreadContext& at = fiber->context;
  return Format("block ({},{},{}), thread ({},{},{})", at.ctaid[0], at.ctaid[1], at.ctaid[2],
                at.tid[0], at.tid[1], at.tid[2]);
}

std::string Block::Whereabouts(const Fiber* fiber) const {
  const ThreadContext& at = fiber->context;
  if (!launch_->compiled.warps || std::has_single_bit(at.lanes)) return Where(fiber);
  ThreadContext last = at;
  SelectLane(&last, static_cast<std::uint32_t>(std::popcount(at.lanes)) - 1);
  return Format("block ({},{},{}), one of the threads ({},{},{}) to ({},{},{})", at.ctaid[0],
                at.ctaid[1], at.ctaid[2], at.first_tid[0], at.first_tid[1], at.first_tid[2],
                last.tid[0], last.tid[1], last.tid[2]);
}

// Describes the waits of the threads left in a deadlock.
std::string Block::Waiting() const {
  std::string text = Format("block {}: {} {} are in a deadlock:", index_, alive_,
                            launch_->compiled.warps ? "warps" : "threads");
  for (std::uint32_t i = 0; i < kBarriers; ++i) {
    if (everyone_[i] != 0) {
      text += Format(" barrier {} has {} of {} warps", i, std::popcount(everyone_[i]),
                     std::popcount(warps_alive_));
    }
    if (!barriers_[i].InUse()) continue;
    text += Format(" barrier {} has {} of {} warps", i, std::popcount(barriers_[i].arrived_warps()),
                   barriers_[i].expected_threads() == 0
                       ? static_cast<std::uint32_t>(std::popcount(warps_alive_))
                       : barriers_[i].expected_threads() / kWarpLanes);
  }
  for (std::uint32_t warp = 0; warp * kWarpLanes < threads_; ++warp) {
    if (!warps_[warp].HasMeetings()) continue;
    text += Format(" warp {} waits for lanes named by a warp-wide operation", warp);
    break;
  }
  return text;
}

void Block::Abandon(Fiber* self, CUresult error, std::string what) {
  Fail(error, Format("{}: {}", Where(self), what));
  std::string().swap(what);  // Freed here: this stack is not unwound.
  guard().LeaveForGood();
}

}  // namespace cuspan::softgpu
