#include "interpose/client/observers.h"

namespace cuspan {

Result<Channel*> Observers::Open(std::uint32_t device) {
  std::unique_ptr<Channel>& channel = channels_[device];
  if (channel != nullptr && channel->closed()) {
    channel.reset();
    CUSPAN_RETURN_IF_ERROR(opener_->Close(device));
  }
  if (channel != nullptr) return channel.get();
  OpenDevice request;
  request.context = device;
  request.device = device;
  CUSPAN_ASSIGN_OR_RETURN(DeviceOpener::Opened opened, opener_->Open(request, -1));
  if (opened.answer.result != 0) return Status::Unavailable("{}", opened.answer.message);
  CUSPAN_ASSIGN_OR_RETURN(Bell peer, Bell::Open(std::move(opened.bell)));
  CUSPAN_ASSIGN_OR_RETURN(channel, Channel::Attach(std::move(opened.channel), ChannelSide::kClient,
                                                   &bell_, std::move(peer)));
  return channel.get();
}

Result<NvmlAnswer> Observers::Ask(std::uint32_t device, const NvmlAsk& ask) {
  const MutexLock lock(mutex_);
  CUSPAN_ASSIGN_OR_RETURN(Channel* const channel, Open(device));
  const WaitStages stages = WaitStages::ForThisMachine();
  channel->Post(ask);
  for (;;) {
    // The time-out is for the agent's death alone.
    const bool woken = bell_.Wait([&] { return channel->HasFrame() || channel->closed(); },
                                  std::chrono::milliseconds(250), stages);
    if (channel->closed() || (!woken && opener_->Gone()))
      return Status::Unavailable("who observes device {} is lost", device);
    if (!woken) continue;
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<Frame> frame, channel->Peek());
    if (!frame) continue;
    Result<NvmlAnswer> answer = ParseMessage<NvmlAnswer>(*frame);
    channel->Pop();
    if (!answer.ok()) channel->Close(true);
    return answer;
  }
}

}  // namespace cuspan
