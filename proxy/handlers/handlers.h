// One function an op: what the proxy does with it. A family of ops has a file,
// as the faces of the client have.
//
// Called on the receiving thread, in the order of the frames. A function checks
// what the client claims: kInvalid for what no honest client sends, which ends
// the session. What the driver refuses is reported to the client instead.
// Views into the frame are valid until the function returns. Nothing here waits.
#pragma once

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

#define CUSPAN_DECLARE_HANDLER(Name)                                          \
  Status Handle(DeviceSession& session, const Origin& origin, const Name& op) \
      CUSPAN_REQUIRES(receiving_thread);
CUSPAN_FOR_EACH_OP_OF_A_PROXY(CUSPAN_DECLARE_HANDLER)
#undef CUSPAN_DECLARE_HANDLER

}  // namespace cuspan::proxy
