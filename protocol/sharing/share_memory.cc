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
  if (run >= scheduling::kMostSharingRuns || session.value_or(0) >= kMostSharingSessions)
    return Status::Invalid("run {} of a table of a shared GPU", run);
  return std::unique_ptr<ShareMemory>(new ShareMemory(std::move(file), run, session));
}

bool ShareMemory::Take(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  // When the table can not be changed, since a process was stopped in the middle, another session
  // of this run may take at the same time; that is all.
  const Result<ShareFile::Changing> changing = file_->Change();
  if (changing.ok()) file_->ForgetDead();
  if (!session_ || sharing::RoomOf(file_->layout(), run_).left < bytes) return false;
  std::atomic<std::uint64_t>& own = file_->layout().sessions[*session_].memory;
  if (own.load() + bytes < bytes) return false;
  own.store(own.load() + bytes);
  return true;
}

void ShareMemory::Give(std::uint64_t bytes) {
  if (!session_) return;
  const MutexLock lock(mutex_);
  std::atomic<std::uint64_t>& own = file_->layout().sessions[*session_].memory;
  own.store(own.load() - std::min(own.load(), bytes));
}

MemoryRoom ShareMemory::Look() {
  const MutexLock lock(mutex_);
  return sharing::RoomOf(file_->layout(), run_);
}

}  // namespace cuspan
