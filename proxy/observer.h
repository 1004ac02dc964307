// A proxy that only tells about its device: no context, no driver.
#pragma once

#include "protocol/channel/channel.h"
#include "proxy/gpu/nvml.h"

namespace cuspan::proxy {

// Answers each NvmlAsk of the channel's client with an NvmlAnswer until the channel is closed: Ok.
// Anything else that comes ends the channel as lost: kInvalid says what it was.
Status Observe(Channel& channel, NvmlDevice& device);

}  // namespace cuspan::proxy
