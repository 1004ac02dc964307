// What each thread of a block knows of the others: which of their accesses happened before it goes
// on, by barriers, warp-wide operations and atomics. The clocks are those of "FastTrack: Efficient
// and Precise Dynamic Race Detection" (Flanagan and Freund, PLDI 2009): vector clocks, and of an
// access only the thread and its own time.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proxy/softgpu/rt/unit_set.h"

namespace cuspan::softgpu {

// Of one block; its worker calls.
class RaceClocks {
 public:
  // Nobody knows anything of another.
  void Begin(std::uint32_t threads);

  // The time of what the thread does next, and whether it knows what another did at `time`.
  std::uint32_t Now(std::uint32_t thread) const { return now_[thread]; }
  bool Knows(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const {
    const Clock* const clock = known_[thread].get();
    return other == thread || (clock != nullptr && time <= (*clock)[other]);
  }

  // Threads meet: each knows from now on what all of them have done, what those of `others` have,
  // and what was told at `place`, which is over then.
  void Meet(const UnitSet& threads, const UnitSet& others, std::uint64_t place);
  // The thread has left: who meets for the whole block knows what it did.
  void Leave(std::uint32_t thread) { left_.Add(thread); }
  const UnitSet& left() const { return left_; }
  // What is told at a place, an atomic's address or a barrier, is learned by others there.
  void Fence(std::uint32_t thread);
  bool HasFenced(std::uint32_t thread) const { return fenced_[thread] != nullptr; }
  void TellAll(std::uint32_t thread, std::uint64_t place);
  void TellFenced(std::uint32_t thread, std::uint64_t place);  // What it did before its last Fence.
  void Learn(std::uint32_t thread, std::uint64_t place);

 private:
  using Clock = std::vector<std::uint32_t>;  // By thread: its latest time that is known.
  using Known = std::shared_ptr<const Clock>;

  // What `threads` know and have done, all together.
  std::shared_ptr<Clock> Join(const UnitSet& threads) const;
  std::shared_ptr<Clock> OwnOf(std::uint32_t thread) const;
  void Tell(const Clock& what, std::uint64_t place);

  std::vector<std::uint32_t> now_;
  std::vector<Known> known_;   // Shared by those that met; null: nothing.
  std::vector<Known> fenced_;  // What each knew and had done at its last fence; null: none yet.
  std::unordered_map<std::uint64_t, Known> places_;
  Known anywhere_;  // What was told at places that are not kept any more.
  UnitSet left_;
};

}  // namespace cuspan::softgpu
