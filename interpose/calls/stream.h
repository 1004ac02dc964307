// Streams.
#pragma once

#include <cstdint>
#include <memory>

#include "interpose/calls/ways_in.h"

namespace cuspan {

// On the current device. `flags` as in CUstream_flags; a priority beyond what the device has is the
// nearest one.
Error CreateStream(unsigned flags, int priority, CUstream* stream);
Error DestroyStream(CUstream stream);
Error SynchronizeStream(CUstream stream, DefaultStream meaning);
// CUDA_ERROR_NOT_READY while work is pending.
Error QueryStream(CUstream stream, DefaultStream meaning);

// use(const StreamTarget&, const Stream*: what the program made; null for a default stream). Checks
// the handle.
template <typename Use>
Error AboutStream(CUstream stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    use(target, session.streams().Peek(NumberOf(stream)));
    return CUDA_SUCCESS;
  });
}

// Numbers are unique among all streams of the process: handles are, and the
// legacy default stream of a device goes by the number of its proxy.
inline std::uint64_t IdOf(const StreamTarget& target) {
  return target.stream != 0 ? target.stream : target.connection->number();
}

// What a stream says of its capture. The list of nodes is the calling thread's until it asks again.
// But for the status, the results are defined for capturing streams only; each of them may be null.
struct CaptureInfo {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** dependencies;
  const CUgraphEdgeData** edges;  // None have data: null.
  std::size_t* count;
};
Error GetCaptureInfo(CUstream stream, DefaultStream meaning, const CaptureInfo& info);

}  // namespace cuspan
