// Streams.
#include "interpose/calls/stream.h"

#include "interpose/calls/context.h"
#include "interpose/calls/device_settings.h"
#include "interpose/calls/event.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/calls/managed.h"
#include "interpose/calls/stream_attributes.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Calls use(const StreamTarget&, created stream or null) to fill *out.
template <typename Use>
CUresult Report(CUstream stream, DefaultStream meaning, const void* out, Use&& use) {
  return InHostFunctionsToo(stream, [&] {
    return AnswerInContext([&](Session&) -> Error {
      if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
      return WithStream(stream, meaning, use);
    });
  });
}

// body(Session&) → Error: AnswerInContext for a call about `stream`.
template <typename Body>
CUresult AnswerAbout(CUstream stream, Body&& body) {
  return InHostFunctionsToo(stream, [&] { return AnswerInContext(body); });
}

// Reports "not capturing", if no capture is active in the process.
CUresult ReportNoCapture(CUstream stream, CUstreamCaptureStatus* status) {
  if (const Context* const context = ThisThread().contexts.top();
      context != nullptr && context->generation() == 0)
    return AnswerInContext([&](Session&) -> Error {  // Opens the context.
      return ReportNoCapture(stream, status);
    });
  return AnswerFromTables([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(ButLost(CurrentContextState()));
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return IsDefaultStream(stream) ? CUDA_SUCCESS
                                   : ButLost(session.streams().Check(NumberOf(stream)));
  });
}

CUresult ReportCaptureStatus(CUstream stream, DefaultStream meaning,
                             CUstreamCaptureStatus* status) {
  // Fast path: libraries make this query before nearly every call.
  if (!AnyCapture())
    return InHostFunctionsToo(stream, [&] { return ReportNoCapture(stream, status); });
  return Report(stream, meaning, status, [&](const StreamTarget& target, const auto&) {
    *status = CaptureOf(target).status;
  });
}

CUresult ReportCapture(CUstream stream, DefaultStream meaning, const CaptureInfo& info) {
  if (!AnyCapture())
    return InHostFunctionsToo(stream, [&] { return ReportNoCapture(stream, info.status); });
  return AnswerAbout(stream, [&](Session&) { return GetCaptureInfo(stream, meaning, info); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return AnswerInContext([&](Session&) { return CreateStream(flags, 0, stream); });
}

CUSPAN_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return AnswerInContext([&](Session&) { return CreateStream(flags, priority, stream); });
}

CUSPAN_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return AnswerAbout(stream, [&](Session&) { return DestroyStream(stream); });
}

CUSPAN_EXPORT_TWINS(cuStreamSynchronize, _ptsz, (CUstream stream), InHostFunctionsToo(stream, [&] {
                      return AnswerOnStream(
                          stream, [&](Session&) { return SynchronizeStream(stream, meaning); });
                    }))

CUSPAN_EXPORT_TWINS(cuStreamQuery, _ptsz, (CUstream stream), InHostFunctionsToo(stream, [&] {
                      return AnswerOnStream(stream,
                                            [&](Session&) { return QueryStream(stream, meaning); });
                    }))

CUSPAN_EXPORT_TWINS(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned flags),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerOnStream(stream, [&](Session&) {
                        return WaitEvent(stream, event, flags, meaning);
                      });
                    }))

// --- Queries and settings of streams

CUSPAN_EXPORT_TWINS(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned* flags),
                    Report(stream, meaning, flags, [&](const StreamTarget&, const auto& made) {
                      *flags = made != nullptr ? made->flags : unsigned{CU_STREAM_DEFAULT};
                    }))

CUSPAN_EXPORT_TWINS(cuStreamGetPriority, _ptsz, (CUstream stream, int* priority),
                    Report(stream, meaning, priority, [&](const StreamTarget&, const auto& made) {
                      *priority = made != nullptr ? made->priority : 0;
                    }))

CUSPAN_EXPORT_TWINS(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice* device),
                    Report(stream, meaning, device, [&](const StreamTarget& target, const auto&) {
                      *device = target.connection->device();
                    }))

CUSPAN_EXPORT_TWINS(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long* id),
                    Report(stream, meaning, id,
                           [&](const StreamTarget& target, const auto&) { *id = IdOf(target); }))

CUSPAN_EXPORT_TWINS(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext* context),
                    Report(stream, meaning, context, [&](const StreamTarget&, const auto& made) {
                      *context = HandleOf(made != nullptr ? made->context.get()
                                                          : ThisThread().contexts.top());
                    }))

CUSPAN_EXPORT_TWINS(cuStreamGetAttribute, _ptsz,
                    (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value),
                    AnswerAbout(stream, [&](Session&) {
                      return GetStreamAttribute(stream, attribute, value, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamSetAttribute, _ptsz,
                    (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value),
                    AnswerAbout(stream, [&](Session&) {
                      return SetStreamAttribute(stream, attribute, value, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from),
                    AnswerAbout(to,
                                [&](Session&) { return CopyStreamAttributes(to, from, meaning); }))

CUSPAN_EXPORT_TWINS(cuStreamAttachMemAsync, _ptsz,
                    (CUstream stream, CUdeviceptr memory, std::size_t bytes, unsigned flags),
                    AnswerAbout(stream, [&](Session&) {
                      return AttachManaged(HandleOf<void*>(memory), bytes, flags, stream, meaning);
                    }))

// --- Capture

CUSPAN_EXPORT_TWINS(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode),
                    AnswerAbout(stream,
                                [&](Session&) { return BeginCapture(stream, meaning, mode); }))
// Form before CUDA 10.1, without a mode.
#undef cuStreamBeginCapture
CUSPAN_EXPORT_TWINS(cuStreamBeginCapture, _ptsz, (CUstream stream),
                    AnswerAbout(stream, [&](Session&) {
                      return BeginCapture(stream, meaning, CU_STREAM_CAPTURE_MODE_GLOBAL);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph* graph),
                    AnswerAbout(stream, [&](Session&) -> Error {
                      return EndCapture(stream, meaning, graph);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus* status),
                    ReportCaptureStatus(stream, meaning, status))

#undef cuStreamGetCaptureInfo
CUSPAN_EXPORT_TWINS(cuStreamGetCaptureInfo, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
                    ReportCapture(stream, meaning,
                                  {status, id, nullptr, nullptr, nullptr, nullptr}))
CUSPAN_EXPORT_TWINS(cuStreamGetCaptureInfo_v2, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, std::size_t* count),
                    ReportCapture(stream, meaning,
                                  {status, id, graph, dependencies, nullptr, count}))
CUSPAN_EXPORT_TWINS(cuStreamGetCaptureInfo_v3, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                     std::size_t* count),
                    ReportCapture(stream, meaning, {status, id, graph, dependencies, edges, count}))

#undef cuStreamUpdateCaptureDependencies
CUSPAN_EXPORT_TWINS(cuStreamUpdateCaptureDependencies, _ptsz,
                    (CUstream stream, CUgraphNode* dependencies, std::size_t count, unsigned flags),
                    AnswerAbout(stream, [&](Session&) {
                      return UpdateCaptureDependencies(stream, meaning, dependencies, count, flags);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
                    (CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* /*edges*/,
                     std::size_t count, unsigned flags),
                    AnswerAbout(stream, [&](Session&) {
                      return UpdateCaptureDependencies(stream, meaning, dependencies, count, flags);
                    }))

CUSPAN_EXPORT_TWINS(cuStreamBeginCaptureToGraph, _ptsz,
                    (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                     const CUgraphEdgeData* /*edges*/, std::size_t count, CUstreamCaptureMode mode),
                    AnswerAbout(stream, [&](Session&) {
                      return BeginCaptureToGraph(stream, meaning, graph, dependencies, count, mode);
                    }))

CUSPAN_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return InHostFunctionsToo(
      [&] { return AnswerWithDriver([&](Session&) { return ExchangeCaptureMode(mode); }); });
}
