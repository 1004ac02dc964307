// The receiving loop of a proxy.
#pragma once

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// Serves the channel's client until the channel is closed: Ok. A frame that no
// honest client sends ends the session: kInvalid (or kRefused for another
// version) says what was wrong, the channel is closed as lost, and nothing of
// that frame was done. kExhausted when more waits in the streams' queues than a
// proxy will hold. The context of the session's device is current to the calling thread.
Status Serve(DeviceSession& session) CUSPAN_REQUIRES(receiving_thread);

}  // namespace cuspan::proxy
