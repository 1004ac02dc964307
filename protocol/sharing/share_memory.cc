#include "protocol/sharing/share_memory.h"

#include <algorithm>

#include "protocol/sharing/memory_room.h"
#include "protocol/sharing/share_file.h"

namespace cuspan {

using sharing::ShareFile;

ShareMemory::ShareMemory(std::unique_ptr<ShareFile> file, std::uint32_t run,
                         std::optional<std::uint32_t> session)
    : file_(std::move(file)), run_(run), session_(session) {}

ShareMemory::~ShareMemory() = default;

Result<std::unique_ptr<ShareMemory>> ShareMemory::Open(UniqueFd table, std::uint32_t run,
                                                       std::optional<std::uint32_t> session) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file, ShareFile::Open(std::move(table)));
  if (run >= scheduling::kMaxSharingRuns || session.value_or(0) >= kMaxSharingSessions)
    return Status::Invalid(
        "a table of a shared GPU has no slot {} for a run, or no slot for its session", run);
  return std::unique_ptr<ShareMemory>(new ShareMemory(std::move(file), run, session));
}

bool ShareMemory::Take(std::uint64_t bytes, bool fixed) {
  const MutexLock lock(mutex_);
  // If the table is locked by a stopped process, another session of this run may allocate at the
  // same time. This is harmless.
  const Result<ShareFile::Changing> changing = file_->Change();
  if (changing.ok()) file_->ForgetDead();
  if (!session_) return false;
  const sharing::Layout& table = file_->layout();
  const std::uint64_t left =
      fixed ? sharing::FixedRoomOf(table, run_) : sharing::RoomOf(table, run_).left;
  sharing::SessionSlot& own = file_->layout().sessions[*session_];
  if (left < bytes || own.memory.load() + bytes < bytes) return false;
  own.memory.store(own.memory.load() + bytes);
  if (fixed) own.fixed.store(own.fixed.load() + bytes);
  return true;
}

void ShareMemory::Give(std::uint64_t bytes, bool fixed) {
  if (!session_) return;
  const MutexLock lock(mutex_);
  sharing::SessionSlot& own = file_->layout().sessions[*session_];
  own.memory.store(own.memory.load() - std::min(own.memory.load(), bytes));
  if (fixed) own.fixed.store(own.fixed.load() - std::min(own.fixed.load(), bytes));
}

void ShareMemory::SetRefused(std::uint64_t bytes) {
  if (!session_) return;
  const MutexLock lock(mutex_);
  file_->layout().sessions[*session_].refused.store(bytes);
}

void ShareMemory::SetOut(std::uint64_t bytes, std::uint64_t stuck) {
  if (!session_) return;
  const MutexLock lock(mutex_);
  const Result<ShareFile::Changing> changing = file_->Change();
  sharing::SessionSlot& own = file_->layout().sessions[*session_];
  own.out.store(bytes);
  own.stuck.store(stuck);
  own.evict.store(0);
  if (!changing.ok()) return;
  // Withdraws unneeded evictions, and wakes all sessions waiting for memory.
  if (sharing::SwapNeedOf(file_->layout(), run_, false).lacks == 0) file_->AskForRoom(run_);
  file_->RingAll();
}

bool ShareMemory::HasRoom() {
  if (!session_) return true;
  const MutexLock lock(mutex_);
  const Result<ShareFile::Changing> changing = file_->Change();
  if (!changing.ok()) return true;  // The driver decides.
  file_->ForgetDead();
  return !file_->AskForRoom(run_);
}

bool ShareMemory::Fits() {
  const MutexLock lock(mutex_);
  return sharing::SwapNeedOf(file_->layout(), run_, false).lacks == 0;
}

void ShareMemory::Learn(std::uint64_t bytes, std::chrono::nanoseconds time) {
  const MutexLock lock(mutex_);
  const Result<ShareFile::Changing> changing = file_->Change();
  if (changing.ok() && time.count() > 0)
    sharing::LearnSwap(file_->layout(), bytes, static_cast<std::uint64_t>(time.count()));
}

MemoryRoom ShareMemory::Query() {
  const MutexLock lock(mutex_);
  return sharing::RoomOf(file_->layout(), run_);
}

}  // namespace cuspan
