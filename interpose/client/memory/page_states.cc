#include "interpose/client/memory/page_states.h"

#include <algorithm>

namespace cuspan {
namespace {

// Growth of the next run. A request costs about as much as four blocks on a fast connection.
constexpr std::size_t kGrowth = 4;

}  // namespace

PageStates::Run PageStates::SameAccess(std::size_t first, std::size_t end) const {
  std::size_t next = first + 1;
  while (next < end && access(next) == access(first)) ++next;
  return {first, next - first};
}

template <typename Belongs>
PageStates::Run PageStates::Continue(Sequence& sequence, std::size_t block, Belongs&& belongs) {
  const bool goes_on = block == sequence.end && block != 0;
  sequence.most = goes_on ? std::min(kGrowth * sequence.most, kMaxAhead) : 1;
  Run run{block, 1};
  while (run.count < sequence.most && block + run.count < size() && belongs(block + run.count))
    ++run.count;
  sequence.end = block + run.count;
  return run;
}

PageStates::Run PageStates::Ahead(std::size_t block) {
  return Continue(fetched_, block, [this](std::size_t next) { return !valid(next); });
}

PageStates::Run PageStates::AheadWritten(std::size_t block) {
  return Continue(written_, block,
                  [this](std::size_t next) { return valid(next) && !dirty(next); });
}

void PageStates::Fetched(std::size_t block, bool device_at_work) {
  Block& known = blocks_[block];
  if (!known.valid) ++valid_count_;
  known.valid = true;
  if (device_at_work && !known.unstable) ++unstable_;
  if (!device_at_work && known.unstable) --unstable_;
  known.unstable = device_at_work;
}

void PageStates::Written(std::size_t block) {
  if (!blocks_[block].dirty) ++dirty_;
  blocks_[block].dirty = true;
}

void PageStates::Pushed(std::size_t block) {
  if (blocks_[block].dirty) --dirty_;
  blocks_[block].dirty = false;
}

void PageStates::Invalidate(Run run) {
  for (std::size_t block = run.first; block < run.first + run.count; ++block) {
    Block& known = blocks_[block];
    if (known.valid) --valid_count_;
    if (known.unstable) --unstable_;
    known.valid = known.unstable = false;
  }
}

void PageStates::DeviceRuns() {
  if (valid_count_ == 0) return;
  for (Block& block : blocks_) block.valid = block.unstable = false;
  valid_count_ = 0;
  unstable_ = 0;
}

bool PageStates::Synchronized() {
  if (unstable_ == 0) return false;
  for (std::size_t block = 0; block < size(); ++block)
    if (unstable(block)) Invalidate({block, 1});
  return true;
}

}  // namespace cuspan
