#include "interpose/client/observers.h"

#include "common/log.h"

namespace cuspan {
namespace {

// Interval of checks for the agent's end, and time without an answer before a warning.
constexpr std::chrono::milliseconds kObserverCheck{250};
constexpr std::chrono::seconds kReportSilentAfter{10};

}  // namespace

Result<const Observers::Observer*> Observers::Open(std::uint32_t device) {
  Observer& observer = observers_[device];
  std::unique_ptr<Channel>& channel = observer.channel;
  if (channel != nullptr && channel->closed()) {
    channel.reset();
    CUSPAN_RETURN_IF_ERROR(opener_->Close(device));
  }
  if (channel != nullptr) return &observer;
  OpenDevice request;
  request.context = device;
  request.device = device;
  CUSPAN_ASSIGN_OR_RETURN(DeviceOpener::Opened opened, opener_->Open(request, -1));
  if (opened.answer.result != 0) return Status::Unavailable("{}", opened.answer.message);
  CUSPAN_ASSIGN_OR_RETURN(Bell peer, Bell::Open(std::move(opened.bell)));
  CUSPAN_ASSIGN_OR_RETURN(channel, Channel::Attach(std::move(opened.channel), ChannelSide::kClient,
                                                   &bell_, std::move(peer)));
  observer.process = opened.answer.process;
  return &observer;
}

Result<NvmlAnswer> Observers::Ask(std::uint32_t device, const NvmlAsk& ask) {
  const MutexLock lock(mutex_);
  CUSPAN_ASSIGN_OR_RETURN(const Observer* const observer, Open(device));
  Channel* const channel = observer->channel.get();
  std::chrono::milliseconds silent{0};
  const WaitStages stages = WaitStages::ForThisMachine();
  channel->Post(ask);
  for (;;) {
    // Ends with the answer, the channel, or the agent. The time-out serves the check for the agent
    // and the warning.
    const bool woken = bell_.Wait([&] { return channel->HasFrame() || channel->closed(); },
                                  kObserverCheck, stages);
    if (channel->closed() || (!woken && opener_->Gone()))
      return Status::Unavailable("the observer of device {} is lost", device);
    if (!woken) {
      silent += kObserverCheck;
      if (silent == kReportSilentAfter)
        LogWarn(
            "device {} has not answered for {} s: its observer (a cuspan-proxy, process {} on its "
            "host) is stopped, or NVIDIA's management library there is stuck",
            device, kReportSilentAfter.count(), observer->process);
      continue;
    }
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<Frame> frame, channel->Peek());
    if (!frame) continue;
    Result<NvmlAnswer> answer = ParseMessage<NvmlAnswer>(*frame);
    channel->Pop();
    if (!answer.ok()) channel->Close(true);
    return answer;
  }
}

}  // namespace cuspan
