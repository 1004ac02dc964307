#include "interpose/client/memory/page_states.h"

#include <algorithm>

namespace cuspan {

PageStates::Run PageStates::SameAccess(std::size_t first, std::size_t end) const {
  std::size_t next = first + 1;
  while (next < end && access(next) == access(first)) ++next;
  return {first, next - first};
}

PageStates::Run PageStates::Ahead(std::size_t block) {
  ahead_ = block == ahead_end_ && block != 0 ? std::min(2 * ahead_, kMostAhead) : 1;
  Run run{block, 0};
  while (run.count < ahead_ && block + run.count < size() && !valid(block + run.count)) ++run.count;
  ahead_end_ = block + run.count;
  return run;
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

void PageStates::DeviceRuns() {
  if (valid_count_ == 0) return;
  for (Block& block : blocks_) block.valid = block.unstable = false;
  valid_count_ = 0;
  unstable_ = 0;
}

bool PageStates::Synchronized() {
  if (unstable_ == 0) return false;
  for (Block& block : blocks_) {
    if (!block.unstable) continue;
    block.valid = block.unstable = false;
    --valid_count_;
  }
  unstable_ = 0;
  return true;
}

}  // namespace cuspan
