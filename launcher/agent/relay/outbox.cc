#include "launcher/agent/relay/outbox.h"

#include <utility>

#include "common/log.h"

namespace cuspan {
namespace {

// Number of queued control messages above which congested() is true.
constexpr std::size_t kMaxControl = 256;
// Maximum number of chunk announcements held back to share a message, on links faster than
// kHoldAbove bytes/s.
constexpr std::uint64_t kHeldAnnouncements = 4;
constexpr double kHoldAbove = 1.5e9;
// Time for which an inline chunk waits for the proxy's answer behind it: one message instead of
// two.
constexpr std::chrono::microseconds kAnswerFollows{10};

}  // namespace

void Outbox::AddControl(Op op, std::vector<std::byte> frame) {
  if (closed_) return;
  if (frame.size() > kMaxFrameBytes)
    return LogError("a message ({}) of {} bytes to agent {} is too large and is not sent",
                    OpName(op), frame.size(), rank_);
  // Keep-alives must not wait behind other control messages.
  if (op == Op::kAgentAlive)
    control_.push_front(std::move(frame));
  else
    control_.push_back(std::move(frame));
}

bool Outbox::Append(RouteKey route, const FrameHeader& header, Bytes payload) {
  if (closed_) return false;
  if (batch_.Append(route, header, payload)) return true;
  urgent_ = true;  // The batch is full.
  return Send() && batch_.Append(route, header, payload);
}

std::optional<std::uint64_t> Outbox::Announce(const FrameHeader& header, Bytes payload) {
  if (!Append({}, header, payload)) return std::nullopt;
  return ++announced_;
}

void Outbox::AwaitAnswer() {
  if (!urgent_) held_until_ = std::chrono::steady_clock::now() + kAnswerFollows;
}

bool Outbox::congested() const { return control_.size() > kMaxControl; }

void Outbox::Close() {
  closed_ = true;
  control_.clear();
  batch_.Clear();
  held_until_.reset();
}

bool Outbox::MayHold() const {
  return !urgent_ && control_.empty() && announced_ - announced_sent_ < kHeldAnnouncements &&
         sends_.started_announcement() <= announced_sent_ &&
         sends_.rate().bytes_per_second() > kHoldAbove;
}

bool Outbox::AppendControl(bool& has_updates) {
  while (!control_.empty()) {
    const std::vector<std::byte>& frame = control_.front();
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    if (!batch_.Append({}, header, Bytes(frame).subspan(sizeof header))) return false;
    has_updates = has_updates || IsUpdate({}, static_cast<Op>(header.op));
    control_.pop_front();
  }
  return true;
}

bool Outbox::Send() {
  if (held_until_) {
    if (!urgent_ && control_.empty() && std::chrono::steady_clock::now() < *held_until_)
      return false;
    held_until_.reset();
    urgent_ = true;
  } else if (MayHold()) {
    return false;
  }
  bool has_updates = !batch_.empty();
  bool sent = false;
  for (;;) {
    const bool all = AppendControl(has_updates);
    if (batch_.empty() || !transport_.TrySend(rank_, batch_.bytes())) return sent;
    batch_.Clear();
    urgent_ = false;
    announced_sent_ = announced_;
    sent = has_updates;
    if (all) return sent;
  }
}

}  // namespace cuspan
