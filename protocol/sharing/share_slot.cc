#include "protocol/sharing/share_slot.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "protocol/sharing/share_file.h"
#include "protocol/sharing/share_layout.h"

namespace cuspan {

using sharing::SessionSlot;
using sharing::ShareFile;

ShareSlot::ShareSlot(std::unique_ptr<ShareFile> file, std::uint32_t place)
    : file_(std::move(file)),
      slot_(place),
      gated_(file_->layout().sessions[place].gated),
      rung_(file_->layout().sessions[place].rung) {}

Result<std::unique_ptr<ShareSlot>> ShareSlot::Take(UniqueFd table, std::uint32_t run_slot) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file, ShareFile::Open(std::move(table)));
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file->Change());
  sharing::Layout& layout = file->layout();
  if (run_slot >= scheduling::kMaxSharingRuns || !layout.turns.runs[run_slot].present)
    return Status::NotFound("the run has no slot in the table of its GPU");
  file->ForgetDead();
  for (std::uint32_t i = 0; i < kMaxSharingSessions; ++i) {
    SessionSlot& session = layout.sessions[i];
    if (session.taken != 0 || !file->AcquireSlot(sharing::kFirstSessionByte + i)) continue;
    for (std::atomic<std::uint32_t>* word :
         {&session.open, &session.wants, &session.preemptible, &session.known, &session.paired,
          &session.pairings, &session.bottleneck})
      word->store(0);
    session.on_gpu_since.store(0);
    session.memory.store(0);
    session.fixed.store(0);
    session.stuck.store(0);
    session.out.store(0);
    session.refused.store(0);
    session.evict.store(0);
    session.done.store(0);
    session.busy.store(0);
    session.asked.store(0);
    session.idle_since.store(ShareFile::Now());
    session.done_by.store(0);
    session.run = run_slot;
    session.serial = layout.serials[run_slot];
    session.taken = 1;
    layout.sessions_used = std::max(layout.sessions_used, i + 1);
    file->DecideNow();
    return std::unique_ptr<ShareSlot>(new ShareSlot(std::move(file), i));
  }
  return Status::Exhausted("{} processes use this GPU already, the maximum of a shared GPU",
                           kMaxSharingSessions);
}

ShareSlot::~ShareSlot() {
  if (!left_) Leave();
}

void ShareSlot::Leave() {
  left_ = true;
  // If this fails, the next process searching for dead ones clears the slot.
  const Result<ShareFile::Changing> changing = file_->Change();
  if (!changing.ok()) return;
  SetOnGpu(false, 0, Now());
  sharing::Layout& layout = file_->layout();
  const std::uint32_t run = sharing::Once(own().run);
  if (run < scheduling::kMaxSharingRuns)
    layout.busy_before[run] += own().busy.load(std::memory_order_relaxed);
  own().taken = 0;
  file_->ReleaseSlot(sharing::kFirstSessionByte + slot_);
  file_->DecideNow();
}

ShareTerms ShareSlot::terms() const { return file_->TermsOf(own().run); }

std::string ShareSlot::path() const { return file_->FindPath(); }

Result<std::unique_ptr<ShareMemory>> ShareSlot::OpenMemory() const {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd table, file_->OpenAgain());
  return ShareMemory::Open(std::move(table), own().run, slot_);
}

SessionSlot& ShareSlot::own() const { return file_->layout().sessions[slot_]; }

bool ShareSlot::open() const { return own().open.load() != 0; }
std::uint64_t ShareSlot::evict() const { return own().evict.load(std::memory_order_relaxed); }
bool ShareSlot::preemptible() const {
  return own().preemptible.load(std::memory_order_relaxed) != 0;
}
bool ShareSlot::on_gpu() const { return own().on_gpu_since.load(std::memory_order_relaxed) != 0; }
bool ShareSlot::paired() const { return own().paired.load(std::memory_order_relaxed) != 0; }
std::uint32_t ShareSlot::pairings() const { return own().pairings.load(std::memory_order_relaxed); }
ShareSlot::Changes ShareSlot::changes() const {
  const scheduling::TimeSlices& turns = file_->layout().turns;
  return {turns.changes, turns.last_gain, turns.last_cost};
}
bool ShareSlot::some_wait() const {
  // During a change, a run may just be starting to wait.
  const sharing::Layout& layout = file_->layout();
  return layout.waiting.load(std::memory_order_relaxed) != 0 ||
         layout.changing.load(std::memory_order_relaxed) != 0;
}
std::uint64_t ShareSlot::next_decision() const {
  return file_->layout().next_decision.load(std::memory_order_relaxed);
}

void ShareSlot::SetWants() { own().wants.store(1); }

void ShareSlot::SetIdle(std::uint64_t now) {
  SetOnGpu(false, 0, now);
  own().idle_since.store(now, std::memory_order_relaxed);
  own().wants.store(0);
}

void ShareSlot::SetBottleneck(scheduling::Bottleneck bottleneck) {
  own().bottleneck.store(static_cast<std::uint32_t>(bottleneck), std::memory_order_relaxed);
}
void ShareSlot::SetKnown(bool known) {
  own().known.store(known ? 1 : 0, std::memory_order_relaxed);
}
void ShareSlot::SetDone(std::uint64_t nanoseconds) {
  own().done.store(nanoseconds, std::memory_order_relaxed);
}

void ShareSlot::SetOnGpu(bool on_gpu, std::uint64_t done_by, std::uint64_t now) {
  SessionSlot& session = own();
  session.done_by.store(done_by, std::memory_order_relaxed);
  const std::uint64_t since = session.on_gpu_since.load(std::memory_order_relaxed);
  if (on_gpu == (since != 0)) return;
  session.on_gpu_since.store(on_gpu ? now : 0, std::memory_order_relaxed);
  if (!on_gpu && now > since)
    session.busy.store(session.busy.load(std::memory_order_relaxed) + (now - since),
                       std::memory_order_relaxed);
}

Status ShareSlot::Decide() {
  own().asked.fetch_add(1, std::memory_order_relaxed);
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file_->Change());
  file_->DecideNow(&own());
  return Status::Ok();
}

std::uint32_t ShareSlot::AwaitRing(std::uint32_t seen, std::chrono::milliseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1000);
  time.tv_nsec = static_cast<long>(limit.count() % 1000) * 1'000'000;
  ::syscall(SYS_futex, &own().rung, FUTEX_WAIT, seen, &time, nullptr, 0);
  return rings();
}

void ShareSlot::RingSelf() { ShareFile::Wake(own()); }

std::uint64_t ShareSlot::Now() { return ShareFile::Now(); }

}  // namespace cuspan
