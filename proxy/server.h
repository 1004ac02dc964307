// Receiving loop of a proxy.
#pragma once

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// Serves the channel's client. Returns Ok when the channel is closed. An invalid frame ends the
// session: kInvalid (kRefused for another version) describes the error. The channel is closed as
// lost, and no part of the frame was executed. kExhausted if the stream queues exceed the proxy's
// limit. The device's context is current in the calling thread.
Status Serve(DeviceSession& session) CUSPAN_REQUIRES(receiving_thread);

}  // namespace cuspan::proxy
