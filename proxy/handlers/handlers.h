// Handlers: one function for each op, one file for each family of ops, like in interpose/calls.
//
// Threads: the receiving thread, in the order of frames. A handler checks the client's values.
// kInvalid ends the session, for values no valid client sends. Errors of the driver are reported to
// the client. Views into the frame are valid until the function returns. Handlers never block.
#pragma once

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

#define CUSPAN_DECLARE_HANDLER(Name)                                          \
  Status Handle(DeviceSession& session, const Origin& origin, const Name& op) \
      CUSPAN_REQUIRES(receiving_thread);
CUSPAN_FOR_EACH_OP_OF_A_PROXY(CUSPAN_DECLARE_HANDLER)
#undef CUSPAN_DECLARE_HANDLER

}  // namespace cuspan::proxy
