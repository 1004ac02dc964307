#include "interpose/calls/stream.h"

#include <algorithm>
#include <vector>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/graph/in_stream.h"

namespace cuspan {

Error CreateStream(unsigned flags, int priority, CUstream* stream) {
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    const PriorityRange range = PrioritiesOf(session.devices().description(CurrentDevice()));
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(
        session.streams().Create(flags, std::clamp(priority, range.greatest, range.least), &made));
    *stream = HandleOf<CUstream>(made);
    return CUDA_SUCCESS;
  });
}

Error DestroyStream(CUstream stream) {
  return WithSession(
      [&](Session& session) -> Error { return session.streams().Destroy(NumberOf(stream)); });
}

Error SynchronizeStream(CUstream stream, DefaultStream meaning) {
  return OnStream(stream, meaning, [](Session& session, const StreamTarget& target) {
    return session.streams().Synchronize(target);
  });
}

Error QueryStream(CUstream stream, DefaultStream meaning) {
  return OnStream(stream, meaning, [](Session& session, const StreamTarget& target) {
    return session.streams().Query(target);
  });
}

Error GetCaptureInfo(CUstream stream, DefaultStream meaning, const CaptureInfo& info) {
  if (info.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithStream(stream, meaning, [&](const StreamTarget& target, const auto&) {
    const CaptureState state = CaptureOf(target);
    *info.status = state.status;
    if (state.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    thread_local std::vector<CUgraphNode> list;
    list = state.dependencies;
    if (info.id != nullptr) *info.id = state.id;
    if (info.graph != nullptr) *info.graph = state.graph;
    if (info.dependencies != nullptr) *info.dependencies = list.data();
    if (info.edges != nullptr) *info.edges = nullptr;
    if (info.count != nullptr) *info.count = list.size();
  });
}

}  // namespace cuspan
