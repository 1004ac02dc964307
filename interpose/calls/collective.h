// What NCCL does in streams: groups of calls, which go to the proxies of the communicators'
// devices.
#pragma once

#include <vector>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// Puts the calls, all of communicators of one context, into these streams of it together: they
// begin when all streams have come to them, and all streams go on when they are done. In streams
// that are being captured they become a node. CUDA_ERROR_STREAM_CAPTURE_ISOLATION where only some
// are.
Error SubmitCollectives(Session& session, const std::vector<StreamTarget>& streams,
                        std::vector<CollectiveCall> calls);

// Hands a group to the stream, which is of its context.
Error PostCollectives(Session& session, const StreamTarget& target, const CollectiveWork& work);

}  // namespace cuspan
