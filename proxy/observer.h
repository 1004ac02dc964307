// A proxy only reporting the state of its device: no context, no driver.
#pragma once

#include "protocol/channel/channel.h"
#include "proxy/gpu/nvml.h"

namespace cuspan::proxy {

// Answers each NvmlAsk of the channel's client with an NvmlAnswer. Returns Ok when the channel is
// closed. Any other message closes the channel as lost; kInvalid describes it.
Status Observe(Channel& channel, NvmlDevice& device);

}  // namespace cuspan::proxy
