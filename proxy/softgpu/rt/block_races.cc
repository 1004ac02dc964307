// Notifications of a block for race detection.
#include <cstring>

#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {

void Block::BeginRaces() {
  if (races_ == nullptr) races_ = std::make_unique<BlockRaces>();
  // Overwrites data of the previous block: a write of the same value would not count as a write.
  const std::size_t shared_bytes =
      std::size_t{launch_->static_shared_bytes} + launch_->dynamic_shared_bytes;
  std::memset(shared_, 0xa5, shared_bytes);
  const Dimensions &block = launch_->block, &grid = launch_->grid;
  races_->Begin(
      *launch_->races, index_, threads_, static_cast<std::uint32_t>(shared_bytes),
      {&launch_->kernel, {block.x, block.y, block.z}, {grid.x, grid.y, grid.z}, launch_->device});
}

void Block::NoteArrival(const Fiber* self, std::uint32_t number) {
  races_->Settle();
  races_->clocks().ReleaseAll(self->unit, number);
}

void Block::NoteBarrier(const Barrier& barrier, std::uint32_t number, const Fiber* self) {
  races_->Settle();
  UnitSet wait = barrier.waiters();
  if (self != nullptr) wait.Add(self->unit);
  // A barrier of the whole block counts exited threads as arrived.
  const bool all = barrier.expected_threads() == 0;
  races_->clocks().Meet(wait, all ? races_->clocks().left() : UnitSet(), number);
}

void Block::NoteMeeting(std::uint32_t warp, std::uint32_t lanes) {
  races_->Settle();
  UnitSet all;
  all.AddWord(warp, lanes);
  races_->clocks().Meet(all, {}, kBarriers);
}

}  // namespace cuspan::softgpu
