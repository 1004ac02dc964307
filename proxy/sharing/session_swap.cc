#include "proxy/sharing/session_swap.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/trace.h"
#include "proxy/device_session.h"

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kNeverLook = ~std::uint64_t{0};
// Room is looked for as often as this, since some is made without a ring: by a process that died,
// or that frees memory.
constexpr std::uint64_t kBetweenRoomLooks = 20'000'000;
// What the driver refused where there should be room is tried again after so long, so many times:
// another process's memory may not be the driver's again yet, or is not known to the table.
constexpr std::uint64_t kBetweenTries = 50'000'000;
constexpr unsigned kMostTries = 40;
// So long new memory waits for room while the run has the turn.
constexpr std::uint64_t kLongestRoomWait = 30'000'000'000;
// Who could give nothing is not held again before.
constexpr std::uint64_t kBetweenVainEnds = 1'000'000'000;
// The driver's granularity is at most this (measured on an H200, and documented for none).
constexpr std::uint64_t kLeastPiece = 2 << 20;
constexpr std::uint64_t kMostPiece = 1 << 30;
constexpr std::uint64_t kPiecesOfGpu = 64;

std::uint64_t PieceBytes(const Driver& driver) {
  std::size_t free = 0, total = 0;
  if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return kMostPiece;
  return std::clamp(total / kPiecesOfGpu / kLeastPiece * kLeastPiece, kLeastPiece, kMostPiece);
}

}  // namespace

SessionSwap::SessionSwap(DeviceSession& session, const ShareSeat& seat, ShareMemory& memory)
    : session_(session), seat_(seat), memory_(memory), copies_(session.driver) {
  session.mappings.MaySwap(copies_, PieceBytes(session.driver));
  session.reservations.MaySwap(copies_);
  session.device.memory().SetAwaitRoom(
      [this](std::uint64_t bytes, unsigned refused) { return AwaitRoom(bytes, refused); });
}

bool SessionSwap::AwaitRoom(std::uint64_t bytes, unsigned refused) {
  if (refused == 0 && memory_.Fits()) return true;
  if (refused >= kMostTries) return false;
  answer_ = Answer::kNone;
  refused_ = refused;
  asked_.store(bytes, std::memory_order_release);
  session_.channel.own_bell().Ring();
  session_.worker.ServeFirst([this] { return answer_ != Answer::kNone; });
  return answer_ == Answer::kTryAgain;
}

void SessionSwap::GiveAnswer(Answer answer) {
  asked_ = 0;
  session_.worker.RunFirst([this, answer] { answer_ = answer; });
}

bool SessionSwap::wished() const {
  if (state_ == State::kThere || state_ == State::kEnding || over_) return false;
  return asked_ != 0 || session_.queues.waiting_ops() != 0 || session_.worker.HasWaiting();
}

bool SessionSwap::MayGoOn(bool open) const {
  if (moved_.load(std::memory_order_acquire)) return true;
  if (look_at_ != kNeverLook && ShareSeat::Now() >= look_at_) return true;
  switch (state_) {
    case State::kThere:
      return asked_.load(std::memory_order_acquire) != 0;
    case State::kEnding:
      return !end_awaited_ && session_.queues.begun_ops() <= rests_;
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
      AwaitEnd();
      break;
    case State::kOut:
      WhileOut(open);
      break;
    case State::kClaiming:
      if (open) {
        LookForRoom();
      } else {
        room_wait_ += ShareSeat::Now() - claimed_since_;
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
    claim_at_ = refused_ != 0 ? ShareSeat::Now() + kBetweenTries : 0;
    BeOut();
    WhileOut(open);
  } else if (!open && seat_.evict() != 0) {
    if (const std::uint64_t now = ShareSeat::Now(); now < no_more_until_)
      look_at_ = no_more_until_;
    else
      BeginToEnd();
  }
}

void SessionSwap::WhileOut(bool open) {
  if (!open && seat_.evict() != 0 && !no_more_) return BeginToEnd();
  if (!open || !wished()) return;
  if (ShareSeat::Now() < claim_at_)
    look_at_ = claim_at_;
  else
    Claim();
}

void SessionSwap::Hold() {
  if (std::exchange(held_, true)) return;
  session_.queues.HoldAll();
  session_.worker.Hold();
}

void SessionSwap::Let() {
  if (!std::exchange(held_, false)) return;
  session_.worker.Let();
  session_.queues.LetAll();
}

void SessionSwap::BeOut() {
  no_more_ = false;
  state_ = State::kOut;
  memory_.SetOut(Out());
}

// --- To the host.

void SessionSwap::BeginToEnd() {
  Hold();
  state_ = State::kEnding;
  end_awaited_ = false;
  AwaitEnd();
}

void SessionSwap::AwaitEnd() {
  // Those that wait for the turn with a part of them do so without using the memory.
  if (end_awaited_ || session_.queues.begun_ops() > rests_) return;
  end_awaited_ = true;
  session_.WhenHandedOverDone([this](CUresult, std::uint64_t) { Moved(); });
}

void SessionSwap::Moved() {
  moved_.store(true, std::memory_order_release);
  session_.channel.own_bell().Ring();
}

void SessionSwap::TakeMoved() {
  moved_ = false;
  if (state_ == State::kEnding)
    TakeEnded();
  else if (state_ == State::kGoing)
    TakeGone();
  else if (state_ == State::kComing)
    TakeCome();
}

void SessionSwap::TakeEnded() {
  wanted_ = seat_.evict();
  if (wanted_ == 0) return Out() == 0 ? AllIsThere() : BeOut();  // It is not needed any more.
  state_ = State::kGoing;
  began_ = ShareSeat::Now();
  session_.worker.RunFirst([this] {
    const std::uint64_t before = swapped_;
    result_ = session_.faults.Check(session_.mappings.SwapOut(wanted_));
    std::uint64_t after = session_.mappings.swapped_bytes() + session_.reservations.swapped_bytes();
    if (result_ == CUDA_SUCCESS && after - before < wanted_) {
      result_ = session_.faults.Check(session_.reservations.SwapOut(wanted_ - (after - before)));
      after = session_.mappings.swapped_bytes() + session_.reservations.swapped_bytes();
    }
    moved_bytes_ = after - before;
    swapped_ = after;
    Moved();
  });
}

void SessionSwap::TakeGone() {
  Learn("memory to the host");
  if (result_ != CUDA_SUCCESS && !std::exchange(told_, true))
    LogWarn(
        "the memory of this session cannot be brought to the host: {}; other runs with --memory "
        "all may have to wait until it ends",
        session_.driver.Describe(result_));
  const bool all = moved_bytes_ >= wanted_;
  if (Out() != 0) {
    BeOut();
    no_more_ = !all;
    return;
  }
  no_more_until_ = ShareSeat::Now() + kBetweenVainEnds;
  AllIsThere();
}

// --- And back.

void SessionSwap::Claim() {
  state_ = State::kClaiming;
  claimed_since_ = ShareSeat::Now();
  memory_.SetOut(0);
  LookForRoom();
}

void SessionSwap::LookForRoom() {
  const std::uint64_t now = ShareSeat::Now();
  if (now >= claim_at_ && memory_.HasRoom()) return SwapIn();
  look_at_ = now + kBetweenRoomLooks;
  if (asked_ == 0 || room_wait_ + (now - claimed_since_) < kLongestRoomWait) return;
  GiveAnswer(Answer::kNoRoom);
  if (swapped_ == 0) AllIsThere();
}

void SessionSwap::SwapIn() {
  if (swapped_ == 0) return AllIsThere();
  state_ = State::kComing;
  began_ = ShareSeat::Now();
  session_.worker.RunFirst([this] {
    const std::uint64_t before = swapped_;
    result_ = session_.faults.Check(session_.mappings.SwapIn());
    if (result_ == CUDA_SUCCESS) result_ = session_.faults.Check(session_.reservations.SwapIn());
    swapped_ = session_.mappings.swapped_bytes() + session_.reservations.swapped_bytes();
    moved_bytes_ = before - swapped_;
    Moved();
  });
}

void SessionSwap::TakeCome() {
  Learn("memory back from the host");
  if (swapped_ == 0 && result_ == CUDA_SUCCESS) return AllIsThere();
  // The driver may need a while to have what others gave back.
  const std::uint64_t now = ShareSeat::Now();
  if (now - claimed_since_ > kLongestRoomWait && !std::exchange(told_, true))
    LogWarn("the memory of this session cannot be brought back to the GPU yet: {}",
            session_.driver.Describe(result_));
  state_ = State::kClaiming;
  claim_at_ = now + kBetweenRoomLooks;
}

void SessionSwap::AllIsThere() {
  state_ = State::kThere;
  room_wait_ = 0;
  memory_.SetOut(0);
  if (asked_ != 0) GiveAnswer(Answer::kTryAgain);
  Let();
}

void SessionSwap::End() {
  over_ = true;
  if (state_ == State::kClaiming) memory_.SetOut(Out());
  state_ = State::kThere;
  if (asked_ != 0) GiveAnswer(Answer::kNoRoom);
  Let();
}

void SessionSwap::Learn(const char* what) {
  if (moved_bytes_ == 0) return;
  const std::uint64_t took = ShareSeat::Now() - began_;
  memory_.Learn(moved_bytes_, std::chrono::nanoseconds(took));
  LogInfo("{}: {} MiB in {} ms", what, moved_bytes_ >> 20, took / 1'000'000);
  TraceBuffer* const buffer = Tracing();
  if (buffer == nullptr) return;
  TraceRecord record;
  record.begin = began_;
  record.end = began_ + took;
  record.SetName(Format("{}, {} MiB", what, moved_bytes_ >> 20));
  record.kind = TraceKind::kTurn;
  buffer->Add(record);
}

}  // namespace cuspan::proxy
