// First steps of calls with a stream, in addition to base/ways_in.h.
#pragma once

#include <type_traits>

#include "interpose/calls/graph/capture.h"

namespace cuspan {

// Calls body(Session&, const StreamTarget&) → Error. If the body succeeds, returns the failure of
// an op posted earlier by this thread, if any. Only for calls not capturable.
template <typename Body>
Error OnStream(CUstream stream, DefaultStream meaning, Body&& body) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (AnyCapture(session)) [[unlikely]] {
      CUSPAN_RETURN_IF_FAILED(RefuseCapture(session, target));
    }
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->ConsumePostedFailure();
  });
}

// Calls body(Session&, const StreamTarget&) → Error or, in a capturing stream, make_work(Session&,
// const StreamTarget&, [const NewNode&,] Work*) → Error or Described. Otherwise like OnStream.
template <typename Body, typename Describe>
Error InStream(CUstream stream, DefaultStream meaning, Body&& body, Describe&& make_work) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (AnyCapture(session)) [[unlikely]] {
      bool captured = false;
      CUSPAN_RETURN_IF_FAILED(CaptureWork(
          session, target,
          [&](const NewNode& place, Work* work) -> Described {
            if constexpr (std::is_invocable_v<Describe, Session&, const StreamTarget&,
                                              const NewNode&, Work*>)
              return make_work(session, target, place, work);
            else
              return make_work(session, target, work);
          },
          &captured));
      if (captured) return CUDA_SUCCESS;
    }
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->ConsumePostedFailure();
  });
}

// Same for the record of an event or the wait for one. In a capturing stream, `capture` changes the
// dependencies. If `flags` say external, the node `external` does it at each launch instead.
template <typename Body>
Error EventInStream(CUevent event, CUstream stream, unsigned flags, DefaultStream meaning,
                    decltype(CaptureRecord)* capture, const Work& external, Body&& body) {
  static_assert(CU_EVENT_RECORD_EXTERNAL == 1 && CU_EVENT_WAIT_EXTERNAL == 1);
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    const bool is_external = flags == CU_EVENT_RECORD_EXTERNAL;
    bool captured = false;
    if (AnyCapture(session)) {
      const auto describe = [&](const NewNode&, Work* work) -> Error {
        *work = external;
        return CUDA_SUCCESS;
      };
      CUSPAN_RETURN_IF_FAILED(is_external ? CaptureWork(session, target, describe, &captured)
                                          : capture(session, target, event, &captured));
    }
    if (captured) return CUDA_SUCCESS;
    if (is_external) return CUDA_ERROR_ILLEGAL_STATE;
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->ConsumePostedFailure();
  });
}

}  // namespace cuspan
