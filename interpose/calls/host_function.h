// Functions of the program, called in stream order.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Calls the function when `target` reaches it. The stream goes on after its return.
Error CallInOrder(Session& session, const StreamTarget& target, const HostFunction& call);

// Same in a stream of the program, possibly capturing.
Error LaunchHostFunction(CUstream stream, const HostFunction& call, DefaultStream meaning);

}  // namespace cuspan
