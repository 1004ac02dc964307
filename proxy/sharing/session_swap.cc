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

constexpr std::uint64_t kNeverLook = ~std::uint64_t{0};
// Room is looked for as often as this, since some is made without a ring: by a process that died,
// or that frees memory.
constexpr std::uint64_t kBetweenRoomLooks = 20'000'000;
// What the driver refused where there should be room is tried again after so long, so many times:
// another process's memory may not be the driver's again yet, or is not known to the table.
constexpr std::uint64_t kBetweenTries = 50'000'000;
constexpr unsigned kMaxTries = 200;
// So long a run with the turn waits for room; then new memory is refused, and others have the GPU
// for as long.
constexpr std::uint64_t kLongestRoomWait = 30'000'000'000;
// What was handed over has so long to end before memory goes: a kernel may wait for what is held.
// Who could give nothing, or less than was wanted, is not held again before.
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

bool SessionSwap::wished() const {
  if (state_ == State::kThere || state_ == State::kEnding || over_ || resting_) return false;
  return frame_waits_ || asked_ != 0 || device_.HasWaiting();
}

bool SessionSwap::KeepsFrames() const {
  // Those for what is begun must come.
  return out() || (state_ == State::kEnding && device_.queues().begun_ops() <= rests_);
}

bool SessionSwap::MayGoOn(bool open) const {
  if (moved_.load(std::memory_order_acquire)) return true;
  if (look_at_ != kNeverLook && ShareSlot::Now() >= look_at_) return true;
  switch (state_) {
    case State::kThere:
      return asked_.load(std::memory_order_acquire) != 0;
    case State::kEnding:
      return open || slot_.evict() == 0 || (ended_ != nullptr && *ended_) ||
             (ended_ == nullptr && device_.queues().begun_ops() <= rests_);
    case State::kOut:
      return open && look_at_ == kNeverLook && wished();
    case State::kGoing:
    case State::kClaiming:
    case State::kComing:
      return false;
  }
  return false;
}

void SessionSwap::GoOn(bool open, std::size_t rests) {
  look_at_ = kNeverLook;
  rests_ = rests;
  if (over_) {
    moved_ = false;
    if (asked_ != 0) GiveAnswer(Answer::kNoRoom);
    return;
  }
  if (moved_.load(std::memory_order_acquire)) TakeMoved();
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
      // Others make room for it also while a run that is there has its short turn in between, but
      // not when another needs the room of this one.
      if (open || slot_.evict() == 0) {
        LookForRoom();
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
      look_at_ = no_more_until_;
  }
  if (state_ == State::kThere && stuck_ != 0) {
    if (ShareSlot::Now() >= no_more_until_)
      memory_.SetOut(0, stuck_ = 0);
    else
      look_at_ = std::min(look_at_, no_more_until_);
  }
}

void SessionSwap::WhileOut(bool open) {
  const std::uint64_t now = ShareSlot::Now();
  if (resting_ && now >= claim_at_) resting_ = false;
  if (stuck_ != 0 && now >= no_more_until_) memory_.SetOut(Out(), stuck_ = 0);
  if (!open && slot_.evict() != 0 && stuck_ == 0) return BeginToEnd();
  if (resting_ || (open && wished() && now < claim_at_)) look_at_ = claim_at_;
  if (stuck_ != 0) look_at_ = std::min(look_at_, no_more_until_);
  if (open && wished() && now >= claim_at_) Claim();
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

// --- To the host.

void SessionSwap::BeginToEnd() {
  Hold();
  state_ = State::kEnding;
  ended_ = nullptr;
  end_by_ = ShareSlot::Now() + kLongestEnd;
  WhileEnding(/*open=*/false);
}

void SessionSwap::WhileEnding(bool open) {
  const std::uint64_t now = ShareSlot::Now();
  // It is not needed any more, or the run has its turn before; or what runs waits for what is held.
  if (open || slot_.evict() == 0) return GoOnAsBefore();
  if (now >= end_by_) {
    no_more_until_ = now + kBetweenVainEnds;
    return GoOnAsBefore();
  }
  look_at_ = end_by_;
  // Those that wait for the turn with a part of them do so without using the memory.
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
  look_at_ = kNeverLook;
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

void SessionSwap::TakeMoved() {
  moved_ = false;
  if (state_ == State::kGoing)
    TakeGone();
  else if (state_ == State::kComing)
    TakeCome();
}

void SessionSwap::TakeGone() {
  Note("memory to the host", ShareSlot::Now() - began_);
  if (result_ != CUDA_SUCCESS && !std::exchange(told_, true))
    LogWarn(
        "the memory of this session cannot be brought to the host: {}; other runs with --memory "
        "all may have to wait until it ends",
        device_.Describe(result_));
  if (moved_bytes_ < wanted_) {
    // All that is left is to stay, so that others are asked.
    stuck_ = ~std::uint64_t{0};
    no_more_until_ = ShareSlot::Now() + kBetweenVainEnds;
  }
  GoOnAsBefore();
}

// --- And back.

void SessionSwap::Claim() {
  state_ = State::kClaiming;
  claimed_since_ = ShareSlot::Now();
  stuck_ = 0;
  memory_.SetOut(0);
  // For what the driver refused there is less room than is known.
  if (asked_ != 0 && refused_ != 0) memory_.SetRefused(asked_);
  LookForRoom();
}

void SessionSwap::LookForRoom() {
  const std::uint64_t now = ShareSlot::Now();
  if (now >= claim_at_ && memory_.HasRoom()) return SwapIn();
  look_at_ = now + kBetweenRoomLooks;
  if (room_wait_ + (now - claimed_since_) < kLongestRoomWait) return;
  room_wait_ = 0;
  if (asked_ != 0) {
    GiveAnswer(Answer::kNoRoom);
  } else if (!std::exchange(told_, true)) {
    LogWarn("this run waits for memory that another run with --memory all cannot give away");
  }
  if (swapped_ == 0) return AllIsThere();
  resting_ = true;
  look_at_ = claim_at_ = now + kLongestRoomWait;
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

void SessionSwap::TakeCome() {
  const std::uint64_t took = ShareSlot::Now() - began_;
  Note("memory back from the host", took);
  // The other way is as fast, once there is host memory: to make that takes longer, the first time.
  if (moved_bytes_ != 0) memory_.Learn(moved_bytes_, std::chrono::nanoseconds(took));
  if (swapped_ == 0 && result_ == CUDA_SUCCESS) return AllIsThere();
  // The driver may need a while to have what others gave back; or it has less than is known, so
  // that they must give more.
  memory_.SetRefused(swapped_);
  state_ = State::kClaiming;
  claim_at_ = ShareSlot::Now() + kBetweenRoomLooks;
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
  // Others ask somebody else.
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
