#include "interpose/client/connection/connection.h"

#include <cstring>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/strict.h"
#include "interpose/client/handles.h"

namespace cuspan {

void EndIfRefused(CUresult result) {
  if (result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    EndIfStrict();
}

Connection::Connection(ProxyPlace place, std::uint64_t number, std::unique_ptr<Channel> channel,
                       ConnectionCommon* common)
    : place_(std::move(place)),
      number_(number),
      channel_(std::move(channel)),
      common_(common),
      transfers_(channel_.get(), common, place_.device) {}

Connection::~Connection() { channel_->Close(false); }

CUresult Connection::SynchronizeStream(std::uint64_t stream) {
  StreamSynchronize op;
  op.stream = stream;
  return CallAndStore(op);
}

CUresult Connection::OwnStream(std::uint64_t* stream) {
  std::lock_guard lock(own_stream_mutex_);
  if (own_stream_ == 0) {
    StreamCreate create;
    create.stream = NextHandle();
    create.flags = CU_STREAM_NON_BLOCKING;
    if (const CUresult result = Send(create); result != CUDA_SUCCESS) return result;
    own_stream_ = create.stream;
  }
  *stream = own_stream_;
  return CUDA_SUCCESS;
}

// --- Faults

CUresult Connection::Lost() {
  if (channel_->closed()) {
    // The last that the proxy sent tells why, and makes the error sticky. Nothing is posted by the
    // thread that receives, so that this waits for another one at most.
    const std::lock_guard receiving(receiving_);
    while (fault() == CUDA_SUCCESS && ReceiveSome()) {
    }
  }
  if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Connection::MalformedReply(const char* op) {
  GiveUp(Format("malformed reply to {}", op));
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void Connection::GiveUp(const std::string& reason) {
  if (broken_.exchange(true, std::memory_order_acq_rel)) return;
  LogError("device {}: {}; the device is lost", device(), reason);
  Fail(CUDA_ERROR_DEVICE_UNAVAILABLE);
  channel_->Close(true);
}

void Connection::Fail(CUresult result) {
  const bool first = calls_.FailAll([&] {
    int none = CUDA_SUCCESS;
    return fault_.compare_exchange_strong(none, result);
  });
  if (!first) return;
  transfers_.FailAll(result);
  channel_->own_bell().Ring();
}

CUresult Connection::Wait(std::uint32_t request, PendingCalls::Call* pending) {
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&] {
    return pending->done.load(std::memory_order_acquire) || fault() != CUDA_SUCCESS;
  };
  Watch(over);
  calls_.WaitFor(request, pending,
                 [&](std::condition_variable& arrived, std::unique_lock<std::mutex>& lock) {
                   WaitLong(arrived, lock, over);
                 });
  const auto waited = std::chrono::steady_clock::now() - start;
  channel_->statistics().wait_nanoseconds.fetch_add(
      static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()),
      std::memory_order_relaxed);
  common_->output.WriteKept();
  return pending->done.load(std::memory_order_acquire) ? CUDA_SUCCESS : fault();
}

// --- Receiving

bool Connection::Receive() {
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  return receiving && ReceiveSome();
}

bool Connection::ReceiveSome() {
  if (!HasWorkNow()) return false;
  bool any = false;
  // Bounded, so that one busy device does not keep the others waiting.
  for (int i = 0; i < 256; ++i) {
    Result<std::optional<Frame>> next = channel_->Peek();
    if (!next.ok()) {
      GiveUp(next.status().message());
      return true;
    }
    if (!next->has_value()) break;
    any = true;
    const Frame& frame = **next;
    if (frame.header.is_reply())
      calls_.Deliver(frame.header.request, frame.payload);
    else if (!HandleFrame(frame))
      GiveUp(Format("the proxy sent an invalid message, op {} ({}) of {} bytes", frame.header.op,
                    OpName(frame.op()), frame.payload.size()));
    if (broken_.load(std::memory_order_acquire)) return true;
    channel_->Pop();
    ShowEvents();
  }
  ShowEvents();  // Those for which chunks were stored meanwhile.
  PostDeferred();
  if (!any && channel_->closed() && fault() == CUDA_SUCCESS) {
    LogError("device {} is lost: its proxy exited; cudaDeviceReset starts a new one", device());
    Fail(CUDA_ERROR_DEVICE_UNAVAILABLE);
    return true;
  }
  return any;
}

bool Connection::HandleFrame(const Frame& frame) {
  switch (frame.op()) {
    case Op::kTransferWanted: {
      TransferWanted wanted;
      if (!DecodeFrom(frame.payload, wanted)) return false;
      transfers_.OnWanted(wanted.transfer, wanted.chunks);
      return true;
    }
    case Op::kChunk: {
      Chunk chunk;
      return DecodeFrom(frame.payload, chunk) && transfers_.OnChunk(chunk);
    }
    case Op::kTransferFailed: {
      TransferFailed failed;
      if (!DecodeFrom(frame.payload, failed)) return false;
      transfers_.OnFailed(failed.transfer, static_cast<CUresult>(failed.result));
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
      OnCompleted(reached.sequence);
      return true;
    }
    case Op::kPostedFailure:
      return HandlePostedFailure(frame);
    case Op::kDeviceFault: {
      DeviceFault device_fault;
      if (!DecodeFrom(frame.payload, device_fault)) return false;
      Fail(static_cast<CUresult>(device_fault.result));
      return true;
    }
    case Op::kDeviceOutput: {
      DeviceOutput output;
      if (!DecodeFrom(frame.payload, output)) return false;
      common_->output.Write(
          output.error, {reinterpret_cast<const char*>(output.data.data()), output.data.size()});
      return true;
    }
    default:
      return false;
  }
}

bool Connection::HandlePostedFailure(const Frame& frame) {
  PostedFailure failure;
  if (!DecodeFrom(frame.payload, failure)) return false;
  const auto op = static_cast<Op>(failure.op);
  const auto result = static_cast<CUresult>(failure.result);
  LogInfo("device {}: {} failed with CUDA error {}", device(), OpName(op), failure.result);
  // Here, and not when its thread asks: other threads may read what the kernel did not write.
  if (RunsKernels(op)) EndIfRefused(result);
  failures_.Add(failure.thread, result);
  return true;
}

void Connection::ShowEvents() {
  while (!unshown_events_.empty() && transfers_.Stored(unshown_events_.front().chunks)) {
    const EventReached reached = unshown_events_.front();
    unshown_events_.pop_front();
    OnEvent(reached);
    if (unshown_events_.empty()) has_unshown_.store(false, std::memory_order_release);
  }
}

void Connection::ShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  const std::lock_guard receiving(receiving_);
  ShowEvents();
}

void Connection::TryShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  if (const std::unique_lock receiving(receiving_, std::try_to_lock); receiving) ShowEvents();
}

bool Connection::HasWork() {
  if (watched()) return false;
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  return receiving && HasWorkNow();
}

bool Connection::HasWorkNow() const {
  // What still lies in the channel is not read.
  if (broken_.load(std::memory_order_acquire)) return false;
  return channel_->HasFrame() || (channel_->closed() && fault() == CUDA_SUCCESS) ||
         (!unshown_events_.empty() && transfers_.Stored(unshown_events_.front().chunks)) ||
         (has_deferred_.load(std::memory_order_acquire) &&
          channel_->HasRoom(sizeof(FrameHeader) + sizeof(Signal)));
}

void Connection::PostFromReceiver(const Signal& signal) {
  std::lock_guard lock(deferred_mutex_);
  deferred_.push_back(signal);
  has_deferred_.store(true, std::memory_order_release);
}

void Connection::PostDeferred() {
  if (!has_deferred_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(deferred_mutex_);
  while (!deferred_.empty()) {
    const std::vector<std::byte> frame = MakeFrame(deferred_.front());
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    if (!channel_->TryPost(header, Bytes(frame).subspan(sizeof header))) {
      channel_->WantRoom();
      if (!channel_->closed()) return;
      deferred_.clear();
      break;
    }
    deferred_.pop_front();
  }
  has_deferred_.store(false, std::memory_order_release);
}

}  // namespace cuspan
