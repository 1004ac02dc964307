#include "proxy/softgpu/rt/race_clocks.h"

#include <algorithm>
#include <utility>

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kMaxPlaces = 4096;

void Raise(std::vector<std::uint32_t>& clock, const std::vector<std::uint32_t>& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

void RaceClocks::Begin(std::uint32_t threads) {
  now_.assign(threads, 1);
  known_.assign(threads, nullptr);
  fenced_.assign(threads, nullptr);
  places_.clear();
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

void RaceClocks::Meet(const UnitSet& threads, const UnitSet& others, std::uint64_t place) {
  UnitSet all = threads;
  all.AddAll(others);
  const auto clock = Join(all);
  if (const auto told = places_.find(place); told != places_.end()) {
    Raise(*clock, *told->second);
    places_.erase(told);
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

void RaceClocks::Tell(const Clock& what, std::uint64_t place) {
  // If there are too many places, their clocks are joined into anywhere_; some races are missed
  // then.
  if (places_.size() >= kMaxPlaces && !places_.contains(place)) {
    auto all = std::make_shared<Clock>(now_.size(), 0);
    if (anywhere_ != nullptr) Raise(*all, *anywhere_);
    for (const auto& [other, told] : places_) Raise(*all, *told);
    anywhere_ = std::move(all);
    places_.clear();
  }
  Known& told = places_[place];
  auto clock = std::make_shared<Clock>(what);
  if (told != nullptr) Raise(*clock, *told);
  told = std::move(clock);
}

void RaceClocks::TellAll(std::uint32_t thread, std::uint64_t place) {
  Tell(*OwnOf(thread), place);
  ++now_[thread];
}

void RaceClocks::TellFenced(std::uint32_t thread, std::uint64_t place) {
  if (fenced_[thread] != nullptr) Tell(*fenced_[thread], place);
}

void RaceClocks::Learn(std::uint32_t thread, std::uint64_t place) {
  const auto told = places_.find(place);
  for (const Known& what : {told == places_.end() ? nullptr : told->second, anywhere_}) {
    if (what == nullptr) continue;
    auto clock = std::make_shared<Clock>(*what);
    if (known_[thread] != nullptr) Raise(*clock, *known_[thread]);
    known_[thread] = std::move(clock);
  }
}

}  // namespace cuspan::softgpu
