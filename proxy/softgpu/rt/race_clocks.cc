#include "proxy/softgpu/rt/race_clocks.h"

#include <algorithm>
#include <utility>

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kMaxSyncPoints = 4096;

void Raise(std::vector<std::uint32_t>& clock, const std::vector<std::uint32_t>& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

void RaceClocks::Begin(std::uint32_t threads) {
  now_.assign(threads, 1);
  known_.assign(threads, nullptr);
  fenced_.assign(threads, nullptr);
  sync_points_.clear();
  anywhere_ = nullptr;
  left_.Clear();
}

std::shared_ptr<RaceClocks::Clock> RaceClocks::Join(const UnitSet& threads) const {
  auto clock = std::make_shared<Clock>(now_.size(), 0);
  const Clock* last = nullptr;  // Most share one clock.
  threads.ForEach([&](std::uint32_t thread) {
    const Clock* const known = known_[thread].get();
    if (known != nullptr && known != last) Raise(*clock, *known);
    last = known;
  });
  threads.ForEach([&](std::uint32_t thread) { (*clock)[thread] = now_[thread]; });
  return clock;
}

std::shared_ptr<RaceClocks::Clock> RaceClocks::OwnOf(std::uint32_t thread) const {
  UnitSet self;
  self.Add(thread);
  return Join(self);
}

void RaceClocks::Meet(const UnitSet& threads, const UnitSet& others, std::uint64_t sync_point) {
  UnitSet all = threads;
  all.AddAll(others);
  const auto clock = Join(all);
  if (const auto told = sync_points_.find(sync_point); told != sync_points_.end()) {
    Raise(*clock, *told->second);
    sync_points_.erase(told);
  }
  threads.ForEach([&](std::uint32_t thread) {
    known_[thread] = clock;
    ++now_[thread];
  });
}

void RaceClocks::Fence(std::uint32_t thread) {
  fenced_[thread] = OwnOf(thread);
  ++now_[thread];
}

void RaceClocks::Release(const Clock& what, std::uint64_t sync_point) {
  // If there are too many places, their clocks are joined into anywhere_; some races are missed
  // then.
  if (sync_points_.size() >= kMaxSyncPoints && !sync_points_.contains(sync_point)) {
    auto all = std::make_shared<Clock>(now_.size(), 0);
    if (anywhere_ != nullptr) Raise(*all, *anywhere_);
    for (const auto& [other, told] : sync_points_) Raise(*all, *told);
    anywhere_ = std::move(all);
    sync_points_.clear();
  }
  Known& told = sync_points_[sync_point];
  auto clock = std::make_shared<Clock>(what);
  if (told != nullptr) Raise(*clock, *told);
  told = std::move(clock);
}

void RaceClocks::ReleaseAll(std::uint32_t thread, std::uint64_t sync_point) {
  Release(*OwnOf(thread), sync_point);
  ++now_[thread];
}

void RaceClocks::ReleaseFenced(std::uint32_t thread, std::uint64_t sync_point) {
  if (fenced_[thread] != nullptr) Release(*fenced_[thread], sync_point);
}

void RaceClocks::Acquire(std::uint32_t thread, std::uint64_t sync_point) {
  const auto told = sync_points_.find(sync_point);
  for (const Known& what : {told == sync_points_.end() ? nullptr : told->second, anywhere_}) {
    if (what == nullptr) continue;
    auto clock = std::make_shared<Clock>(*what);
    if (known_[thread] != nullptr) Raise(*clock, *known_[thread]);
    known_[thread] = std::move(clock);
  }
}

}  // namespace cuspan::softgpu
