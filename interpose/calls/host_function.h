// Functions of the program that run in a stream's order.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// The function runs when `target` has come so far, and the stream goes on after it.
Error CallInOrder(Session& session, const StreamTarget& target, const HostFunction& call);

// The same in a stream of the program, which may be capturing.
Error LaunchHostFunction(CUstream stream, const HostFunction& call, DefaultStream meaning);

}  // namespace cuspan
