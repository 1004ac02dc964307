// Functions of the program that run in a stream's order.
#pragma once

#include "interpose/runtime/entry.h"

namespace cuspan {

// The function runs when `target` has come so far, and the stream goes on after it.
Error CallInOrder(Session& session, const StreamTarget& target, const cudaHostNodeParams& call);

}  // namespace cuspan
