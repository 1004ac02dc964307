#include "interpose/client/connection/receiver.h"

#include <optional>

#include "common/log.h"
#include "interpose/client/connection/connection.h"

namespace cuspan {
namespace {

// Messages of one device handled before those of others.
constexpr std::uint32_t kMostAtOnce = 256;

bool PostedRunsKernels(Op op) {
  bool runs = false;
  WithOp(op, [&runs]<typename T>() {
    if constexpr (T::kClass == OpClass::kPosted) runs = RunsKernels(T::kMemory);
  });
  return runs;
}

}  // namespace

Receiver::Receiver(Connection* connection)
    : connection_(*connection), channel_(connection->channel()) {}

void Receiver::GiveUp(const std::string& reason) {
  if (broken_.exchange(true, std::memory_order_acq_rel)) return;
  const std::string sentence = connection_.LossSentence(reason);
  // First: a program learning of the loss may exit at once.
  LogError("{}", sentence);
  connection_.Lose(sentence);
  channel_.Close(true);
}

void Receiver::BeginWatch() {
  if (watching_.fetch_add(1, std::memory_order_seq_cst) != 0) return;
  // The receiver thread may sleep while all devices are watched. Otherwise each message would wake
  // it: the last watch has ended with RingShortSleepers. A second device is rarely watched as well.
  const std::atomic<int>& connections = connection_.common().connections;
  Bell& bell = channel_.own_bell();
  if (connections.load() != 1) return;
  bell.LetShortSleepersSleep();
  if (connections.load() == 1) [[likely]]
    return;
  // The first watch of a new device may just have ended. The receiver thread has its messages.
  bell.RingShortSleepers();
  bell.Ring();
}

void Receiver::EndWatch() {
  // Other waiting threads receive.
  if (watching_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  channel_.own_bell().RingShortSleepers();
  // Wakes the receiver thread for messages to others.
  if (HasWork()) channel_.own_bell().Ring();
}

bool Receiver::Receive() {
  if (!receiving_.try_lock()) return false;
  const MutexLock receiving(receiving_, std::adopt_lock);
  return ReceiveSome();
}

void Receiver::ReceiveArrived() {
  const MutexLock receiving(receiving_);
  // A ring holds fewer messages than this.
  for (std::uint32_t taken = 0; taken < channel_.layout().ring_slots; taken += kMostAtOnce)
    if (!ReceiveSome()) return;
}

bool Receiver::ReceiveSome() {
  if (!HasWorkNow()) return false;
  bool any = false;
  // Bounded: one busy device must not delay the others.
  for (std::uint32_t i = 0; i < kMostAtOnce; ++i) {
    Result<std::optional<Frame>> next = channel_.Peek();
    if (!next.ok()) {
      GiveUp(next.status().message());
      return true;
    }
    if (!next->has_value()) break;
    any = true;
    const Frame& frame = **next;
    if (frame.header.is_reply())
      connection_.calls_.Deliver(frame.header.request, frame.payload);
    else if (!HandleFrame(frame))
      GiveUp(Format("the proxy sent an invalid message, op {} ({}) of {} bytes", frame.header.op,
                    OpName(frame.op()), frame.payload.size()));
    if (broken_.load(std::memory_order_acquire)) return true;
    channel_.Pop();
    ShowEvents();
  }
  if (any) received_.fetch_add(1, std::memory_order_relaxed);
  ShowEvents();  // Events with chunks stored meanwhile.
  PostDeferred();
  if (!any && channel_.closed() && connection_.fault() == CUDA_SUCCESS) {
    const std::string why = channel_.end_reason();
    const std::string sentence = connection_.LossSentence(why.empty() ? "its proxy exited" : why);
    LogError("{}; cudaDeviceReset opens it again if its host can be reached", sentence);
    connection_.Lose(sentence);
    return true;
  }
  return any;
}

bool Receiver::HandleFrame(const Frame& frame) {
  switch (frame.op()) {
    case Op::kTransferClearToSend: {
      TransferClearToSend clear_to_send;
      if (!DecodeFrom(frame.payload, clear_to_send)) return false;
      connection_.transfers_.outgoing().OnClearToSend(clear_to_send.transfer, clear_to_send.chunks);
      return true;
    }
    case Op::kChunk: {
      Chunk chunk;
      return DecodeFrom(frame.payload, chunk) && connection_.transfers_.OnChunk(chunk);
    }
    case Op::kChunkInline: {
      ChunkInline chunk;
      return DecodeFrom(frame.payload, chunk) && connection_.transfers_.OnChunkInline(chunk);
    }
    case Op::kTransferFailed: {
      TransferFailed failed;
      if (!DecodeFrom(frame.payload, failed)) return false;
      connection_.transfers_.OnFailed(failed.transfer, static_cast<CUresult>(failed.result));
      return true;
    }
    case Op::kEventReached: {
      EventReached reached;
      if (!DecodeFrom(frame.payload, reached)) return false;
      unshown_events_.push_back(reached);
      has_unshown_.store(true, std::memory_order_release);
      return true;
    }
    case Op::kFenceReached: {
      FenceReached reached;
      if (!DecodeFrom(frame.payload, reached)) return false;
      connection_.OnCompleted(reached.sequence);
      return true;
    }
    case Op::kPostedFailure:
      return HandlePostedFailure(frame);
    case Op::kDeviceFault: {
      DeviceFault device_fault;
      if (!DecodeFrom(frame.payload, device_fault)) return false;
      connection_.Fail(static_cast<CUresult>(device_fault.result));
      return true;
    }
    case Op::kKernelCompiled: {
      KernelCompiled compiled;
      if (!DecodeFrom(frame.payload, compiled)) return false;
      connection_.channel_->statistics().compile_nanoseconds.fetch_add(compiled.nanoseconds,
                                                                       std::memory_order_relaxed);
      return true;
    }
    case Op::kProxyAlive: {
      ProxyAlive alive;
      return DecodeFrom(frame.payload, alive);
    }
    case Op::kDeviceOutput: {
      DeviceOutput output;
      if (!DecodeFrom(frame.payload, output)) return false;
      connection_.common_->output.Write(
          output.error, {reinterpret_cast<const char*>(output.data.data()), output.data.size()});
      return true;
    }
    default:
      return connection_.OnFrame(frame);
  }
}

bool Receiver::HandlePostedFailure(const Frame& frame) {
  PostedFailure failure;
  if (!DecodeFrom(frame.payload, failure)) return false;
  const auto op = static_cast<Op>(failure.op);
  const auto result = static_cast<CUresult>(failure.result);
  LogInfo("device {}: {} failed with CUDA error {}", connection_.device(), OpName(op),
          failure.result);
  // Here, not when the posting thread asks: other threads may read memory not written by the
  // kernel.
  if (PostedRunsKernels(op)) EndIfRefused(result);
  connection_.failures_.Add(failure.thread, result);
  return true;
}

void Receiver::ShowEvents() {
  while (!unshown_events_.empty() &&
         connection_.transfers_.Stored(unshown_events_.front().chunks)) {
    const EventReached reached = unshown_events_.front();
    unshown_events_.pop_front();
    connection_.OnEvent(reached);
    connection_.records_pending_.fetch_sub(1, std::memory_order_release);
    if (unshown_events_.empty()) has_unshown_.store(false, std::memory_order_release);
  }
}

void Receiver::ShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  const MutexLock receiving(receiving_);
  ShowEvents();
}

void Receiver::TryShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  if (!receiving_.try_lock()) return;
  const MutexLock receiving(receiving_, std::adopt_lock);
  ShowEvents();
}

bool Receiver::HasWork() {
  if (watched()) return false;
  if (!receiving_.try_lock()) return false;
  const MutexLock receiving(receiving_, std::adopt_lock);
  return HasWorkNow();
}

bool Receiver::HasWorkNow() const {
  // Remaining messages are not read.
  if (broken_.load(std::memory_order_acquire)) return false;
  return channel_.HasFrame() || (channel_.closed() && connection_.fault() == CUDA_SUCCESS) ||
         (!unshown_events_.empty() &&
          connection_.transfers_.Stored(unshown_events_.front().chunks)) ||
         (has_deferred_.load(std::memory_order_acquire) &&
          channel_.HasRoom(sizeof(FrameHeader) + sizeof(Signal)));
}

void Receiver::Post(const Signal& signal) {
  const MutexLock lock(deferred_mutex_);
  deferred_.push_back(signal);
  has_deferred_.store(true, std::memory_order_release);
}

void Receiver::PostDeferred() {
  if (!has_deferred_.load(std::memory_order_acquire)) return;
  const MutexLock lock(deferred_mutex_);
  while (!deferred_.empty()) {
    if (!TryPost(deferred_.front())) {
      channel_.WantRoom();
      if (!channel_.closed()) return;
      deferred_.clear();
      break;
    }
    deferred_.pop_front();
  }
  has_deferred_.store(false, std::memory_order_release);
}

}  // namespace cuspan
