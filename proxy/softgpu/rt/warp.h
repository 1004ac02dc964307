// Collective operations of a warp's threads: shuffles, votes, matches, reductions. A collective
// completes when all lanes of its member mask have arrived or exited. They may arrive from
// different places in the code.
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

// Arguments of a lane for a collective. Lanes meet if `key` and `mask` agree.
struct CollectiveCall {
  std::uint64_t key;   // Collective, its mode and, for kActiveMask, the code address.
  std::uint32_t mask;  // Member mask; 0 for kActiveMask.
  std::uint64_t value = 0;
  std::uint32_t b = 0, c = 0;  // Shuffles only.

  static std::uint64_t Key(Collective collective, std::uint64_t mode) {
    return static_cast<std::uint64_t>(collective) | mode << 8;
  }
};

struct LaneResult {
  std::uint32_t value = 0;
  std::uint32_t flag = 0;  // Shuffle: in range; match: all equal.
};

// One step of a reduction, by the operations of cuspan_rt_reduce.
std::uint32_t CombineWords(std::uint32_t operation, std::uint32_t left, std::uint32_t right);

class Warp {
 public:
  void BeginLaunch() { patience_used_ = 0; }
  // Begins a block with the lanes of `existing`.
  void Begin(std::uint32_t existing);

  std::uint32_t alive() const { return alive_; }
  // Lanes neither exited nor waiting.
  std::uint32_t running() const { return running_; }
  void Wait(std::uint32_t lane) { running_ &= ~(1u << lane); }
  void GoAll(std::uint32_t lanes) {
    running_ |= lanes;
    yielding_ &= ~lanes;
  }
  void Exit(std::uint32_t lane);
  // Makes `lane` wait for the others at `position` in the code.
  void Reconverge(std::uint32_t lane, std::uint64_t position) {
    Wait(lane);
    positions_[lane] = position;
    reconverging_ |= 1u << lane;
  }
  // Marks `lane` as spinning: it lets others run, then continues by itself.
  void Yield(std::uint32_t lane) {
    Wait(lane);
    yielding_ |= 1u << lane;
  }
  // If no lane runs, removes and returns those waiting at the lowest place. Returns 0 if none
  // waits, or if spinning lanes may still reach this place.
  std::uint32_t ExtractReconverged();

  // Called when `lane` arrives at a collective. Returns its lanes, including the caller, if it is
  // now complete. Else returns 0, and the lane must wait.
  std::uint32_t Arrive(std::uint32_t lane, const CollectiveCall& call);
  // Returns the lanes of a collective completed by the exit of another lane or, for kActiveMask,
  // because no lane runs any more. Called repeatedly until it returns 0.
  std::uint32_t ExtractCompleted();

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
  std::uint32_t reconverging_ = 0;  // Lanes waiting at `positions_`.
  std::uint32_t yielding_ = 0;
  // Yields of lanes while others waited for them to reconverge.
  std::uint32_t patience_used_ = 0;
  std::array<std::uint64_t, 32> positions_;
  std::uint32_t meetings_ = 0;  // Entries of meeting_ in use.
  std::array<Meeting, 32> meeting_;
  std::array<std::uint64_t, 32> values_;
  std::array<std::uint32_t, 32> b_, c_;
  std::array<LaneResult, 32> results_;
};

}  // namespace cuspan::softgpu
