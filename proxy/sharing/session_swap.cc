#include "proxy/sharing/session_swap.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/trace.h"

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kNeverPoll = ~std::uint64_t{0};
// Interval of querying for free memory: a process that dies or frees memory does not ring.
constexpr std::uint64_t kRoomPollInterval = 20'000'000;
// Interval and number of retries if the driver refuses memory although it should be free. The
// driver may not have reclaimed another process's memory yet, or the memory is missing in the
// table.
constexpr std::uint64_t kBetweenTries = 50'000'000;
constexpr unsigned kMaxTries = 200;
// Maximum time a run with the time slice waits for memory. After that new memory is refused, and
// others may use the GPU for the same time.
constexpr std::uint64_t kLongestRoomWait = 30'000'000'000;
// Maximum time for submitted work to end before swapping: a kernel may wait for held work. If
// nothing, or less than requested, was swapped out, the session is not held again for
// kBetweenVainEnds.
constexpr std::uint64_t kLongestEnd = 2'000'000'000;
constexpr std::uint64_t kBetweenVainEnds = 1'000'000'000;
}  // namespace

SessionSwap::SessionSwap(SharedDevice& device, const ShareSlot& slot, ShareMemory& memory)
    : device_(device), slot_(slot), memory_(memory) {
  if (slot.terms().swap) device.MaySwap();
  device.SetAwaitRoom([this](std::uint64_t bytes, unsigned refused)
                          CUSPAN_REQUIRES(worker_thread) { return AwaitRoom(bytes, refused); });
}

bool SessionSwap::AwaitRoom(std::uint64_t bytes, unsigned refused) {
  if (refused == 0 && memory_.Fits()) return true;
  if (refused >= kMaxTries) return false;
  answer_ = Answer::kNone;
  refused_ = refused;
  asked_.store(bytes, std::memory_order_release);
  device_.Wake();
  device_.ServeFirst([this]() CUSPAN_REQUIRES(worker_thread) { return answer_ != Answer::kNone; });
  return answer_ == Answer::kTryAgain;
}

void SessionSwap::GiveAnswer(Answer answer) {
  asked_ = 0;
  device_.RunFirst([this, answer]() CUSPAN_REQUIRES(worker_thread) { answer_ = answer; });
}

bool SessionSwap::wants_memory() const {
  if (state_ == State::kThere || state_ == State::kEnding || over_ || resting_) return false;
  return frame_waits_ || asked_ != 0 || device_.HasWaiting();
}

bool SessionSwap::KeepsFrames() const {
  // Frames for ops already begun must be read.
  return out() || (state_ == State::kEnding && device_.queues().begun_ops() <= rests_);
}

bool SessionSwap::MayGoOn(bool open) const {
  if (moved_.load(std::memory_order_acquire)) return true;
  if (poll_at_ != kNeverPoll && ShareSlot::Now() >= poll_at_) return true;
  switch (state_) {
    case State::kThere:
      return asked_.load(std::memory_order_acquire) != 0;
    case State::kEnding:
      return open || slot_.evict() == 0 || (ended_ != nullptr && *ended_) ||
             (ended_ == nullptr && device_.queues().begun_ops() <= rests_);
    case State::kOut:
      return open && poll_at_ == kNeverPoll && wants_memory();
    case State::kGoing:
    case State::kClaiming:
    case State::kComing:
      return false;
  }
  return false;
}

void SessionSwap::GoOn(bool open, std::size_t rests) {
  poll_at_ = kNeverPoll;
  rests_ = rests;
  if (over_) {
    moved_ = false;
    if (asked_ != 0) GiveAnswer(Answer::kNoRoom);
    return;
  }
  if (moved_.load(std::memory_order_acquire)) HandleMoved();
  switch (state_) {
    case State::kThere:
      WhileThere(open);
      break;
    case State::kEnding:
      WhileEnding(open);
      break;
    case State::kOut:
      WhileOut(open);
      break;
    case State::kClaiming:
      // Others free memory even during short time slices of runs with memory on the GPU. If another
      // run needs this session's memory, the claim is suspended.
      if (open || slot_.evict() == 0) {
        PollRoom();
      } else {
        room_wait_ += ShareSlot::Now() - claimed_since_;
        BeOut();
      }
      break;
    case State::kGoing:
    case State::kComing:
      break;
  }
}

void SessionSwap::WhileThere(bool open) {
  if (asked_.load(std::memory_order_acquire) != 0) {
    Hold();
    claim_at_ = refused_ != 0 ? ShareSlot::Now() + kBetweenTries : 0;
    BeOut();
    WhileOut(open);
  } else if (!open && slot_.evict() != 0) {
    if (ShareSlot::Now() >= no_more_until_)
      BeginToEnd();
    else
      poll_at_ = no_more_until_;
  }
  if (state_ == State::kThere && stuck_ != 0) {
    if (ShareSlot::Now() >= no_more_until_)
      memory_.SetOut(0, stuck_ = 0);
    else
      poll_at_ = std::min(poll_at_, no_more_until_);
  }
}

void SessionSwap::WhileOut(bool open) {
  const std::uint64_t now = ShareSlot::Now();
  if (resting_ && now >= claim_at_) resting_ = false;
  if (stuck_ != 0 && now >= no_more_until_) memory_.SetOut(Out(), stuck_ = 0);
  if (!open && slot_.evict() != 0 && stuck_ == 0) return BeginToEnd();
  if (resting_ || (open && wants_memory() && now < claim_at_)) poll_at_ = claim_at_;
  if (stuck_ != 0) poll_at_ = std::min(poll_at_, no_more_until_);
  if (open && wants_memory() && now >= claim_at_) Claim();
}

void SessionSwap::Hold() {
  if (std::exchange(held_, true)) return;
  device_.HoldAll();
}

void SessionSwap::Let() {
  if (!std::exchange(held_, false)) return;
  device_.LetAll();
}

void SessionSwap::BeOut() {
  state_ = State::kOut;
  memory_.SetRefused(0);
  memory_.SetOut(Out(), stuck_);
}

// --- Swapping out

void SessionSwap::BeginToEnd() {
  Hold();
  state_ = State::kEnding;
  ended_ = nullptr;
  end_by_ = ShareSlot::Now() + kLongestEnd;
  WhileEnding(/*open=*/false);
}

void SessionSwap::WhileEnding(bool open) {
  const std::uint64_t now = ShareSlot::Now();
  // Gives up if the memory is no longer needed, if the run gets its time slice, or if running work
  // waits for held work.
  if (open || slot_.evict() == 0) return GoOnAsBefore();
  if (now >= end_by_) {
    no_more_until_ = now + kBetweenVainEnds;
    return GoOnAsBefore();
  }
  poll_at_ = end_by_;
  // Partly submitted ops wait for the time slice without using memory.
  if (ended_ == nullptr && device_.queues().begun_ops() <= rests_) {
    ended_ = std::make_shared<std::atomic<bool>>(false);
    device_.MarkAll([this, ended = ended_](CUresult, std::uint64_t) {
      *ended = true;
      device_.Wake();
    });
  }
  if (ended_ != nullptr && *ended_) SwapOut();
}

void SessionSwap::GoOnAsBefore() {
  if (Out() == 0)
    AllIsThere();
  else
    BeOut();
}

void SessionSwap::SwapOut() {
  poll_at_ = kNeverPoll;
  ended_ = nullptr;
  wanted_ = slot_.evict();
  state_ = State::kGoing;
  began_ = ShareSlot::Now();
  device_.RunFirst([this, wanted = wanted_]() CUSPAN_REQUIRES(worker_thread) {
    const std::uint64_t before = swapped_;
    result_ = device_.SwapOut(wanted);
    swapped_ = device_.swapped_bytes();
    moved_bytes_ = swapped_ - before;
    Moved();
  });
}

void SessionSwap::Moved() {
  moved_.store(true, std::memory_order_release);
  device_.Wake();
}

void SessionSwap::HandleMoved() {
  moved_ = false;
  if (state_ == State::kGoing)
    EndSwapOut();
  else if (state_ == State::kComing)
    EndSwapIn();
}

void SessionSwap::EndSwapOut() {
  Note("memory to the host", ShareSlot::Now() - began_);
  if (result_ != CUDA_SUCCESS && !std::exchange(reported_, true))
    LogWarn(
        "cannot move the device memory of this session to the host: {}; other runs with --memory "
        "all may have to wait for its end",
        device_.Describe(result_));
  if (moved_bytes_ < wanted_) {
    // Declares the rest as not evictable: others are asked instead.
    stuck_ = ~std::uint64_t{0};
    no_more_until_ = ShareSlot::Now() + kBetweenVainEnds;
  }
  GoOnAsBefore();
}

// --- Swapping in

void SessionSwap::Claim() {
  state_ = State::kClaiming;
  claimed_since_ = ShareSlot::Now();
  stuck_ = 0;
  memory_.SetOut(0);
  // The driver refused memory: less is free than the table says.
  if (asked_ != 0 && refused_ != 0) memory_.SetRefused(asked_);
  PollRoom();
}

void SessionSwap::PollRoom() {
  const std::uint64_t now = ShareSlot::Now();
  if (now >= claim_at_ && memory_.HasRoom()) return SwapIn();
  poll_at_ = now + kRoomPollInterval;
  if (room_wait_ + (now - claimed_since_) < kLongestRoomWait) return;
  room_wait_ = 0;
  if (asked_ != 0) {
    GiveAnswer(Answer::kNoRoom);
  } else if (!std::exchange(reported_, true)) {
    LogWarn("this run waits for device memory; another run with --memory all cannot free it");
  }
  if (swapped_ == 0) return AllIsThere();
  resting_ = true;
  poll_at_ = claim_at_ = now + kLongestRoomWait;
  BeOut();
}

void SessionSwap::SwapIn() {
  if (swapped_ == 0) return AllIsThere();
  state_ = State::kComing;
  began_ = ShareSlot::Now();
  device_.RunFirst([this]() CUSPAN_REQUIRES(worker_thread) {
    const std::uint64_t before = swapped_;
    result_ = device_.SwapIn();
    swapped_ = device_.swapped_bytes();
    moved_bytes_ = before - swapped_;
    Moved();
  });
}

void SessionSwap::EndSwapIn() {
  const std::uint64_t took = ShareSlot::Now() - began_;
  Note("memory back from the host", took);
  // Only this direction is measured. Swapping out takes the same time, except for allocating host
  // memory the first time.
  if (moved_bytes_ != 0) memory_.Learn(moved_bytes_, std::chrono::nanoseconds(took));
  if (swapped_ == 0 && result_ == CUDA_SUCCESS) return AllIsThere();
  // The driver may need time to reclaim memory freed by others. Otherwise it has less than the
  // table says, and others must free more.
  memory_.SetRefused(swapped_);
  state_ = State::kClaiming;
  claim_at_ = ShareSlot::Now() + kRoomPollInterval;
}

void SessionSwap::AllIsThere() {
  state_ = State::kThere;
  room_wait_ = 0;
  frame_waits_ = false;
  memory_.SetRefused(0);
  memory_.SetOut(0, stuck_);
  if (asked_ != 0) GiveAnswer(Answer::kTryAgain);
  Let();
}

void SessionSwap::End() {
  over_ = true;
  // From now on other sessions are asked for memory instead.
  memory_.SetRefused(0);
  memory_.SetOut(Out(), ~std::uint64_t{0});
  state_ = State::kThere;
  if (asked_ != 0) GiveAnswer(Answer::kNoRoom);
  Let();
}

void SessionSwap::Note(const char* what, std::uint64_t took) const {
  if (moved_bytes_ == 0) return;
  LogInfo("{}: {} MiB in {} ms", what, moved_bytes_ >> 20, took / 1'000'000);
  TraceBuffer* const buffer = Tracing();
  if (buffer == nullptr) return;
  TraceRecord record;
  record.begin = began_;
  record.end = began_ + took;
  record.SetName(Format("{}, {} MiB", what, moved_bytes_ >> 20));
  record.kind = TraceKind::kTimeSlice;
  buffer->Add(record);
}

}  // namespace cuspan::proxy
