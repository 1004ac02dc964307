#include "interpose/client/link.h"

#include "common/log.h"
#include "interpose/client/handles.h"

namespace cuspan {

Link::Link(int device, std::uint64_t number, AddressWindow window, std::unique_ptr<Channel> channel)
    : device_(device),
      number_(number),
      channel_(std::move(channel)),
      transfers_(channel_.get(), device),
      memory_(this, window),
      modules_(this) {}

Link::~Link() { channel_->Close(false); }

CUresult Link::PlaceManaged(const FatbinRecord& fatbin) {
  if (sharing_ != Sharing::kNone) return variables_->Loaded(*this, fatbin);
  return Registry::Get().ManagedOf(fatbin).empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Link::TakePostedFailure() {
  if (!has_posted_failures_.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  std::lock_guard lock(failures_mutex_);
  const auto failure = posted_failures_.find(ThisThread().number);
  if (failure == posted_failures_.end()) return CUDA_SUCCESS;
  const CUresult result = failure->second;
  posted_failures_.erase(failure);
  if (posted_failures_.empty()) has_posted_failures_.store(false, std::memory_order_release);
  return result;
}

CUresult Link::Lost() {
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

std::uint32_t Link::Register(PendingCall* pending) {
  std::lock_guard lock(calls_mutex_);
  const std::uint32_t request = next_request_++;
  calls_[request] = pending;
  return request;
}

void Link::Forget(std::uint32_t request) {
  std::lock_guard lock(calls_mutex_);
  calls_.erase(request);
}

CUresult Link::Wait(std::uint32_t request, PendingCall* pending) {
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&] {
    return pending->done.load(std::memory_order_acquire) || fault() != CUDA_SUCCESS;
  };
  Watch(over);
  std::unique_lock lock(calls_mutex_);
  WaitLong(pending->arrived, lock, over);
  calls_.erase(request);
  const auto waited = std::chrono::steady_clock::now() - start;
  channel_->statistics().wait_nanoseconds.fetch_add(
      static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()),
      std::memory_order_relaxed);
  lock.unlock();
  KernelOutput::Get().WriteKept();
  return pending->done.load(std::memory_order_acquire) ? CUDA_SUCCESS : fault();
}

void Link::SayWhatIsWaitedFor() {
  if (region_ == nullptr || sharing_ != Sharing::kMirrored || !region_->used_by_kernels()) return;
  if (said_what_is_waited_for_.exchange(true)) return;
  LogWarn(
      "device {} (on another node) has been busy for {} s. Its kernels use pinned memory of the "
      "program, which they see as it was at launch: a kernel that spins until the host writes to "
      "it never finishes",
      device_, kLongWait.count());
}

CUresult Link::MalformedReply(const char* op) {
  GiveUp(Format("malformed reply to {}", op));
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void Link::GiveUp(const std::string& reason) {
  if (broken_.exchange(true, std::memory_order_acq_rel)) return;
  LogError("device {}: {}; the device is lost", device_, reason);
  Fail(CUDA_ERROR_DEVICE_UNAVAILABLE);
  channel_->Close(true);
}

bool Link::Receive() {
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  return receiving && ReceiveSome();
}

bool Link::ReceiveSome() {
  if (!HasWorkNow()) return false;
  bool any = false;
  // Bounded, so that one busy device does not keep the others waiting.
  for (int i = 0; i < 256; ++i) {
    Result<std::optional<Frame>> frame = channel_->Peek();
    if (!frame.ok()) {
      GiveUp(frame.status().message());
      return true;
    }
    if (!frame->has_value()) break;
    any = true;
    HandleFrame(**frame);
    if (broken_.load(std::memory_order_acquire)) return true;
    channel_->Pop();
    ShowEvents();
  }
  ShowEvents();  // Those for which chunks were stored meanwhile.
  PostDeferred();
  if (!any && channel_->closed() && fault() == CUDA_SUCCESS) {
    LogError("device {} is lost: its proxy exited; cudaDeviceReset starts a new one", device_);
    Fail(CUDA_ERROR_DEVICE_UNAVAILABLE);
    return true;
  }
  return any;
}

void Link::HandleFrame(const Frame& frame) {
  if (frame.header.is_reply()) {
    HandleReply(frame);
    return;
  }
  bool understood = false;
  switch (frame.op()) {
    case Op::kTransferWanted:
      if (TransferWanted wanted; (understood = DecodeFrom(frame.payload, wanted)))
        transfers_.OnWanted(wanted.transfer, wanted.chunks);
      break;
    case Op::kChunk:
      if (Chunk chunk; DecodeFrom(frame.payload, chunk)) understood = transfers_.OnChunk(chunk);
      break;
    case Op::kTransferFailed:
      if (TransferFailed failed; (understood = DecodeFrom(frame.payload, failed)))
        transfers_.OnFailed(failed.transfer, static_cast<CUresult>(failed.result));
      break;
    case Op::kEventReached:
      if (EventReached reached; (understood = DecodeFrom(frame.payload, reached))) {
        unshown_events_.push_back(reached);
        has_unshown_.store(true, std::memory_order_release);
      }
      break;
    case Op::kFenceReached:
      if (FenceReached reached; (understood = DecodeFrom(frame.payload, reached)))
        memory_.Completed(reached.sequence);
      break;
    case Op::kPostedFailure:
      if (PostedFailure failure; (understood = DecodeFrom(frame.payload, failure))) {
        LogInfo("device {}: {} failed with CUDA error {}", device_,
                OpName(static_cast<Op>(failure.op)), failure.result);
        // Here, and not when its thread asks: other threads may read what the kernel did not write.
        if (RunsKernels(static_cast<Op>(failure.op)))
          EndIfRefused(static_cast<CUresult>(failure.result));
        std::lock_guard lock(failures_mutex_);
        posted_failures_.emplace(failure.thread, static_cast<CUresult>(failure.result));
        has_posted_failures_.store(true, std::memory_order_release);
      }
      break;
    case Op::kDeviceFault:
      if (DeviceFault device_fault; (understood = DecodeFrom(frame.payload, device_fault)))
        Fail(static_cast<CUresult>(device_fault.result));
      break;
    case Op::kDeviceOutput:
      if (DeviceOutput output; (understood = DecodeFrom(frame.payload, output))) {
        KernelOutput::Get().Write(
            output.error, {reinterpret_cast<const char*>(output.data.data()), output.data.size()});
      }
      break;
    default:
      break;
  }
  if (!understood)
    GiveUp(Format("the proxy sent an invalid message, op {} ({}) of {} bytes", frame.header.op,
                  OpName(frame.op()), frame.payload.size()));
}

void Link::HandleReply(const Frame& frame) {
  std::lock_guard lock(calls_mutex_);
  const auto call = calls_.find(frame.header.request);
  if (call == calls_.end()) return;  // Given up in the meantime.
  // The caller can not leave, and take its PendingCall with it, before it has the mutex.
  call->second->payload.assign(frame.payload.begin(), frame.payload.end());
  call->second->done.store(true, std::memory_order_release);
  call->second->arrived.notify_one();
}

void Link::ShowEvents() {
  while (!unshown_events_.empty() && transfers_.Stored(unshown_events_.front().chunks)) {
    const EventReached reached = unshown_events_.front();
    unshown_events_.pop_front();
    on_event_(reached);
    if (unshown_events_.empty()) has_unshown_.store(false, std::memory_order_release);
  }
}

void Link::ShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  const std::lock_guard receiving(receiving_);
  ShowEvents();
}

void Link::TryShowStored() {
  if (!has_unshown_.load(std::memory_order_acquire)) return;
  if (const std::unique_lock receiving(receiving_, std::try_to_lock); receiving) ShowEvents();
}

bool Link::HasWork() {
  if (watched()) return false;
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  return receiving && HasWorkNow();
}

bool Link::HasWorkNow() const {
  // What still lies in the channel is not read.
  if (broken_.load(std::memory_order_acquire)) return false;
  return channel_->HasFrame() || (channel_->closed() && fault() == CUDA_SUCCESS) ||
         (!unshown_events_.empty() && transfers_.Stored(unshown_events_.front().chunks)) ||
         (has_deferred_.load(std::memory_order_acquire) &&
          channel_->HasRoom(sizeof(FrameHeader) + sizeof(Signal)));
}

CUresult Link::OwnStream(std::uint64_t* stream) {
  std::lock_guard lock(own_stream_mutex_);
  if (own_stream_ == 0) {
    StreamCreate create;
    create.stream = NextHandle();
    create.flags = CU_STREAM_NON_BLOCKING;
    if (const CUresult result = Post(create); result != CUDA_SUCCESS) return result;
    own_stream_ = create.stream;
  }
  *stream = own_stream_;
  return CUDA_SUCCESS;
}

void Link::PostFromReceiver(const Signal& signal) {
  std::lock_guard lock(deferred_mutex_);
  deferred_.push_back(signal);
  has_deferred_.store(true, std::memory_order_release);
}

void Link::PostDeferred() {
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

void Link::Fail(CUresult result) {
  int none = CUDA_SUCCESS;
  {
    std::lock_guard lock(calls_mutex_);
    if (!fault_.compare_exchange_strong(none, result)) return;
    for (auto& [request, pending] : calls_) pending->arrived.notify_one();
  }
  transfers_.FailAll(result);
  channel_->own_bell().Ring();
}

}  // namespace cuspan
