#include "interpose/client/connection/wait_marks.h"

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
  StreamMark op;
  op.stream = stream;
  op.mark = own->number;
  op.value = own->last + ChannelMark::kStep;
  if (connection_.Send(op, sequence) != CUDA_SUCCESS) return Result::kNotPossible;
  own->last = op.value;
  Channel& channel = connection_.channel();
  ChannelMark& mark = channel.marks().all()[own->number];
  std::uint32_t flags = ChannelMark::kFailed;
  const auto over = [&] {
    flags = mark.value.load(std::memory_order_acquire) - op.value;
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

ThreadState::WaitMark* WaitMarks::MarkOfThread() {
  ThreadState& thread = ThisThread();
  std::vector<ThreadState::WaitMark>& marks = thread.wait_marks;
  for (ThreadState::WaitMark& mark : marks)
    if (mark.connection == connection_.number()) return &mark;
  const std::optional<std::uint32_t> number = Take();
  if (!number) return nullptr;
  std::erase_if(marks, [](const ThreadState::WaitMark& mark) { return mark.owner.expired(); });
  if (!std::exchange(thread.returns_marks, true)) {
    thread.at_end.push_back([&marks] {
      for (const ThreadState::WaitMark& mark : marks)
        if (const std::shared_ptr<WaitMarks> owner = mark.owner.lock()) owner->Return(mark);
    });
  }
  const std::uint32_t value =
      connection_.channel().marks().all()[*number].value.load(std::memory_order_relaxed);
  // The connection lives as long as this object.
  const std::shared_ptr<WaitMarks> self(connection_.shared_from_this(), this);
  marks.push_back({self, connection_.number(), *number, value - value % ChannelMark::kStep});
  return &marks.back();
}

std::optional<std::uint32_t> WaitMarks::Take() {
  const MutexLock lock(mutex_);
  if (!returned_.empty()) {
    const std::uint32_t number = returned_.back();
    returned_.pop_back();
    return number;
  }
  if (taken_ == ChannelMarks::kCount) return std::nullopt;
  return taken_++;
}

void WaitMarks::Return(const ThreadState::WaitMark& mark) {
  const std::uint32_t value =
      connection_.channel().marks().all()[mark.number].value.load(std::memory_order_acquire);
  // A value asked for in vain may be written later: nobody else gets the mark.
  if (value - mark.last >= ChannelMark::kStep) return;
  const MutexLock lock(mutex_);
  returned_.push_back(mark.number);
}

}  // namespace cuspan
