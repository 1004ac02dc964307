// What the threads of one warp do together: shuffles, votes, matches,
// reductions. A collective completes when all lanes of its member mask that
// have not exited have come to it, from wherever they are in the code.
#pragma once

#include <array>
#include <cstdint>

#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu {

enum class Collective : std::uint8_t {
  kSync,
  kShuffle,
  kVote,
  kMatch,
  kReduce,
  kMatrix,
  kActiveMask
};

// What a lane brings to a collective. Lanes meet when `key` and `mask` agree.
struct CollectiveCall {
  std::uint64_t key;   // Collective, its mode and, for kActiveMask, the place in the code.
  std::uint32_t mask;  // Member mask; 0 for kActiveMask, which has none.
  std::uint64_t value = 0;
  std::uint32_t b = 0, c = 0;  // Of a shuffle.

  static std::uint64_t Key(Collective collective, std::uint64_t mode) {
    return static_cast<std::uint64_t>(collective) | mode << 8;
  }
};

struct LaneResult {
  std::uint32_t value = 0;
  std::uint32_t flag = 0;  // A shuffle's in-range, a match's all-equal.
};

// One step of a reduction, by the operations of cuspan_rt_reduce.
std::uint32_t CombineWords(std::uint32_t operation, std::uint32_t left, std::uint32_t right);

class Warp {
 public:
  void BeginLaunch() { patience_used_ = 0; }
  // Begins a block with the lanes of `existing`.
  void Begin(std::uint32_t existing);

  std::uint32_t alive() const { return alive_; }
  // Lanes that are neither exited nor waiting for anything.
  std::uint32_t running() const { return running_; }
  void Wait(std::uint32_t lane) { running_ &= ~(1u << lane); }
  void GoAll(std::uint32_t lanes) {
    running_ |= lanes;
    yielding_ &= ~lanes;
  }
  void Exit(std::uint32_t lane);
  // `lane` waits for the others at `place` in the code.
  void Reconverge(std::uint32_t lane, std::uint64_t place) {
    Wait(lane);
    places_[lane] = place;
    reconverging_ |= 1u << lane;
  }
  // `lane` spins: it lets others run, and goes on by itself.
  void Yield(std::uint32_t lane) {
    Wait(lane);
    yielding_ |= 1u << lane;
  }
  // When no lane runs: takes those that wait at the lowest place; 0 when none waits, or when
  // others spin that may still come to that place.
  std::uint32_t TakeReconverged();

  // `lane` comes to a collective. Returns the lanes for which it is now
  // complete, the caller among them, or 0: then the lane must wait.
  std::uint32_t Arrive(std::uint32_t lane, const CollectiveCall& call);
  // Lanes whose collective became complete because another lane exited or, for
  // kActiveMask, because no lane runs any more; 0 when there are none. To be
  // called again until it returns 0.
  std::uint32_t TakeCompleted();

  const LaneResult& result(std::uint32_t lane) const { return results_[lane]; }
  bool HasMeetings() const { return meetings_ != 0; }

 private:
  struct Meeting {
    std::uint64_t key;
    std::uint32_t mask;
    std::uint32_t arrived;
  };

  bool Complete(const Meeting& meeting) const;
  std::uint32_t Conclude(std::uint32_t index);
  void Compute(const Meeting& meeting);

  std::uint32_t alive_ = 0;
  std::uint32_t running_ = 0;
  std::uint32_t reconverging_ = 0;  // Lanes that wait at `places_`.
  std::uint32_t yielding_ = 0;
  // How often lanes have yielded while others waited for them to reconverge.
  std::uint32_t patience_used_ = 0;
  std::array<std::uint64_t, 32> places_;
  std::uint32_t meetings_ = 0;  // Entries of meeting_ in use.
  std::array<Meeting, 32> meeting_;
  std::array<std::uint64_t, 32> values_;
  std::array<std::uint32_t, 32> b_, c_;
  std::array<LaneResult, 32> results_;
};

}  // namespace cuspan::softgpu
