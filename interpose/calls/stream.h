// Streams.
#pragma once

#include <cstdint>
#include <memory>

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Creates a stream on the current device. `flags` as in CUstream_flags. Priorities outside the
// device's range are clamped.
Error CreateStream(unsigned flags, int priority, CUstream* stream);
Error DestroyStream(CUstream stream);
Error SynchronizeStream(CUstream stream, DefaultStream meaning);
// CUDA_ERROR_NOT_READY while work is pending.
Error QueryStream(CUstream stream, DefaultStream meaning);

// Checks the handle. Calls use(const StreamTarget&, const Stream*); Stream is null for a default
// stream.
template <typename Use>
Error WithStream(CUstream stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    use(target, session.streams().Peek(NumberOf(stream)));
    return CUDA_SUCCESS;
  });
}

// Number unique among all streams of the process. Handles are unique; a device's legacy default
// stream uses the number of the context's connection.
inline std::uint64_t IdOf(const StreamTarget& target) {
  return target.stream != 0 ? target.stream : target.connection->number();
}

// Capture state of a stream. All except `status` may be null, and are set for capturing streams
// only. The list of nodes is valid until the thread's next query.
struct CaptureInfo {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** dependencies;
  const CUgraphEdgeData** edges;  // Set to null: edges have no data.
  std::size_t* count;
};
Error GetCaptureInfo(CUstream stream, DefaultStream meaning, const CaptureInfo& info);

}  // namespace cuspan
