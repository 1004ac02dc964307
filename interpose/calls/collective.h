// NCCL's work in streams: groups of calls, sent to the proxies of the communicators' devices.
#pragma once

#include <vector>

#include "interpose/calls/graph/work.h"

namespace cuspan {

// Submits the calls, all of communicators of one context, to these streams of it together. They
// start when all streams reach them; the streams go on when all calls are complete. In capturing
// streams they become one node. CUDA_ERROR_STREAM_CAPTURE_ISOLATION if the streams are not in one
// capture.
Error SubmitCollectives(Session& session, const std::vector<StreamTarget>& streams,
                        std::vector<CollectiveCall> calls);

// Posts a group to the stream, a stream of its context.
Error PostCollectives(Session& session, const StreamTarget& target, const CollectiveWork& work);

}  // namespace cuspan
