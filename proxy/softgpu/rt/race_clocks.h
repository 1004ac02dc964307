// Happens-before order of a block's threads, created by barriers, warp-wide operations and atomics.
// The clocks are those of "FastTrack: Efficient and Precise Dynamic Race Detection" (Flanagan and
// Freund, PLDI 2009): a vector clock per thread, and for an access only its thread and its time.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proxy/softgpu/rt/unit_set.h"

namespace cuspan::softgpu {

// Clocks of one block. Threads: only its worker.
class RaceClocks {
 public:
  // Resets: no thread is ordered after another.
  void Begin(std::uint32_t threads);

  // Time of the thread's next access; true if it is ordered after `other`'s accesses at `time`.
  std::uint32_t Now(std::uint32_t thread) const { return now_[thread]; }
  bool Knows(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const {
    const Clock* const clock = known_[thread].get();
    return other == thread || (clock != nullptr && time <= (*clock)[other]);
  }

  // Orders `threads` after all accesses so far of each other, of `others`, and those published at
  // `sync_point`. Then removes `sync_point`.
  void Meet(const UnitSet& threads, const UnitSet& others, std::uint64_t sync_point);
  // Marks the thread as ended. Later barriers of the whole block include its accesses.
  void Leave(std::uint32_t thread) { left_.Add(thread); }
  const UnitSet& left() const { return left_; }
  // ReleaseAll and ReleaseFenced publish the thread's accesses at `sync_point`: an atomic's
  // address, or a barrier number. Learn orders another thread after them.
  void Fence(std::uint32_t thread);
  bool HasFenced(std::uint32_t thread) const { return fenced_[thread] != nullptr; }
  void ReleaseAll(std::uint32_t thread, std::uint64_t sync_point);
  void ReleaseFenced(std::uint32_t thread, std::uint64_t sync_point);  // Up to its last Fence.
  void Acquire(std::uint32_t thread, std::uint64_t sync_point);

 private:
  using Clock = std::vector<std::uint32_t>;  // Latest known time of each thread.
  using Known = std::shared_ptr<const Clock>;

  // Joins the clocks of `threads`, with their own times.
  std::shared_ptr<Clock> Join(const UnitSet& threads) const;
  std::shared_ptr<Clock> OwnOf(std::uint32_t thread) const;
  void Release(const Clock& what, std::uint64_t sync_point);

  std::vector<std::uint32_t> now_;
  std::vector<Known> known_;   // Shared after a meeting; null: empty.
  std::vector<Known> fenced_;  // Clock of each at its last fence; null: none yet.
  std::unordered_map<std::uint64_t, Known> sync_points_;
  Known anywhere_;  // Joint clock of places no longer kept.
  UnitSet left_;
};

}  // namespace cuspan::softgpu
