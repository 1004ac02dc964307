#include "interpose/client/connection/wait_marks.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "interpose/client/connection/connection.h"

namespace cuspan {
WaitMarks::Result WaitMarks::Await(std::uint64_t stream, std::uint64_t* sequence,
                                   const std::function<void()>& on_long_wait) {
  const auto reports_missing = [this] {
    return connection_.HasRecordsPending() ||
           connection_.common().receiving.load(std::memory_order_acquire) != 0;
  };
  if (connection_.place().relayed || reports_missing()) return Result::kNotPossible;
  ThreadState::WaitMark* const own = MarkOfThread();
  if (own == nullptr) return Result::kNotPossible;
  std::uint32_t value = 0;
  if (!Ask(*own, stream, &value, sequence)) return Result::kNotPossible;
  Channel& channel = connection_.channel();
  ChannelMark& mark = MarkOf(own->number);
  std::uint32_t flags = ChannelMark::kFailed;
  const auto over = [&] {
    flags = mark.value.load(std::memory_order_acquire) - value;
    return flags < ChannelMark::kStep || connection_.fault() != CUDA_SUCCESS;
  };
  const DeviceWait wait(connection_.common(), channel);
  const auto start = std::chrono::steady_clock::now();
  if (!channel.marks().Await(mark, over, Connection::kLongWait)) {
    on_long_wait();
    channel.marks().Await(mark, over, std::chrono::nanoseconds::max());
  }
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
  channel.statistics().wait_nanoseconds.fetch_add(static_cast<std::uint64_t>(waited.count()),
                                                  std::memory_order_relaxed);
  // Failures of ops before the mark.
  connection_.receiver().ReceiveArrived();
  connection_.common().output.WriteKept();
  if (connection_.fault() != CUDA_SUCCESS || (flags & ChannelMark::kFailed) != 0)
    return Result::kNotPossible;
  // Another thread has recorded or copied before the mark: its own waits must not rely on it.
  if (reports_missing()) return Result::kNotPossible;
  return (flags & ChannelMark::kDeviceIdle) != 0 ? Result::kDeviceIdle : Result::kReached;
}

bool WaitMarks::Ask(ThreadState::WaitMark& own, std::uint64_t stream, std::uint32_t* value,
                    std::uint64_t* sequence) {
  // Work with shared memory, in any stream, is better known to be complete from a later mark.
  const bool follows_launch = own.sequence != 0 && own.stream == stream &&
                              connection_.last_posts().Of(stream) == own.sequence &&
                              connection_.last_posts().work() <= own.sequence;
  const std::uint64_t launched = std::exchange(own.sequence, 0);
  if (!follows_launch) {
    GiveUpLaunch(own);
    own.awaited_launches = 0;
  } else if (own.awaited_launches < kHabit) {
    ++own.awaited_launches;
  }
  if (own.behind_launch != 0) {
    *value = std::exchange(own.behind_launch, 0);
    *sequence = launched;
    return true;
  }
  if (!MayAsk(own)) return false;
  StreamMark op;
  op.stream = stream;
  op.mark = own.number;
  op.value = *value = NextValue(own);
  return connection_.Send(op, sequence) == CUDA_SUCCESS;
}

WaitMarks::LaunchMark WaitMarks::BeforeLaunch(std::uint64_t stream) {
  ThreadState::WaitMark* const own = KnownMark();
  if (own == nullptr) return {};
  GiveUpLaunch(*own);
  if (own->awaited_launches < kHabit || !LastPosts::Notes(stream) || !MayAsk(*own)) return {};
  return {own->number, NextValue(*own)};
}

void WaitMarks::AfterLaunch(std::uint64_t stream, std::uint64_t sequence, const LaunchMark& mark) {
  ThreadState::WaitMark* const own = KnownMark();
  if (own == nullptr) return;
  own->stream = stream;
  own->sequence = sequence;
  own->behind_launch = mark.value;
}

void WaitMarks::GiveUpLaunch(ThreadState::WaitMark& own) {
  if (own.behind_launch == 0) return;
  own.in_vain = std::exchange(own.behind_launch, 0);
  own.awaited_launches = 0;
}

bool WaitMarks::MayAsk(ThreadState::WaitMark& own) {
  if (own.in_vain == 0) return true;
  if (!Written(own.number, own.in_vain)) {
    const ThreadState::WaitMark old = own;
    if (!Take(&own)) return false;
    Return(old);
  }
  own.in_vain = 0;
  return true;
}

std::uint32_t WaitMarks::NextValue(ThreadState::WaitMark& own) {
  own.last += ChannelMark::kStep;
  if (own.last == 0) own.last += ChannelMark::kStep;  // 0 stands for none.
  return own.last;
}

ChannelMark& WaitMarks::MarkOf(std::uint32_t number) const {
  return connection_.channel().marks().all()[number];
}

bool WaitMarks::Written(std::uint32_t number, std::uint32_t value) const {
  return MarkOf(number).value.load(std::memory_order_acquire) - value < ChannelMark::kStep;
}

ThreadState::WaitMark* WaitMarks::KnownMark() const {
  for (ThreadState::WaitMark& mark : ThisThread().wait_marks)
    if (mark.connection == connection_.number()) return &mark;
  return nullptr;
}

ThreadState::WaitMark* WaitMarks::MarkOfThread() {
  if (ThreadState::WaitMark* const known = KnownMark()) return known;
  ThreadState& thread = ThisThread();
  std::vector<ThreadState::WaitMark>& marks = thread.wait_marks;
  ThreadState::WaitMark mark;
  mark.connection = connection_.number();
  // The connection lives as long as this object.
  mark.owner = std::shared_ptr<WaitMarks>(connection_.shared_from_this(), this);
  if (!Take(&mark)) return nullptr;
  std::erase_if(marks, [](const ThreadState::WaitMark& other) { return other.owner.expired(); });
  if (!std::exchange(thread.returns_marks, true)) {
    thread.at_end.push_back([&marks] {
      for (const ThreadState::WaitMark& each : marks)
        if (const std::shared_ptr<WaitMarks> owner = each.owner.lock()) owner->Return(each);
    });
  }
  marks.push_back(std::move(mark));
  return &marks.back();
}

bool WaitMarks::Take(ThreadState::WaitMark* mark) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(
      returned_.begin(), returned_.end(),
      [&](const Returned& returned) { return Written(returned.number, returned.last); });
  if (found != returned_.end()) {
    mark->number = found->number;
    mark->last = found->last;
    returned_.erase(found);
    return true;
  }
  if (taken_ == ChannelMarks::kCount) return false;
  mark->number = taken_++;
  mark->last = 0;
  return true;
}

void WaitMarks::Return(const ThreadState::WaitMark& mark) {
  const MutexLock lock(mutex_);
  returned_.push_back({mark.number, mark.last});
}

}  // namespace cuspan
