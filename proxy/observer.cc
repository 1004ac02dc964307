#include "proxy/observer.h"

namespace cuspan::proxy {
namespace {

Status AnswerAll(Channel& channel, NvmlDevice& device) {
  const WaitStages stages = WaitStages::ForThisMachine();
  while (!channel.closed()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<Frame> frame, channel.Peek());
    if (!frame) {
      // Woken by a question or by the agent closing the channel. The agent may also kill this
      // process.
      channel.own_bell().Wait([&] { return channel.HasFrame() || channel.closed(); },
                              std::chrono::seconds(10), stages);
      continue;
    }
    CUSPAN_ASSIGN_OR_RETURN(const NvmlAsk ask, ParseMessage<NvmlAsk>(*frame));
    const std::uint32_t request = frame->header.request;
    channel.Pop();
    channel.Post(device.Ask(ask), request);
  }
  return Status::Ok();
}

}  // namespace

Status Observe(Channel& channel, NvmlDevice& device) {
  Status ended = AnswerAll(channel, device);
  if (!ended.ok()) channel.Close(true);
  return ended;
}

}  // namespace cuspan::proxy
