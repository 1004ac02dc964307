// Copies of runs of bytes.
#include "interpose/calls/copy.h"

#include "interpose/calls/context.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

void* Pointer(CUdeviceptr address) { return HandleOf<void*>(address); }

CUresult Run(void* to, const void* from, std::size_t bytes, CopySides sides, bool asynchronous,
             CUstream stream, DefaultStream meaning) {
  return AnswerInContext(
      [&](Session&) { return Copy(to, from, bytes, sides, asynchronous, stream, meaning); });
}

CUresult Peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              std::size_t bytes, bool asynchronous, CUstream stream, DefaultStream meaning) {
  return AnswerInContext([&](Session& session) -> Error {
    Context* destination = nullptr;
    Context* source = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContextOrCurrent(session, to_context, &destination));
    CUSPAN_RETURN_IF_FAILED(FindContextOrCurrent(session, from_context, &source));
    return CopyPeer({Pointer(to), destination->device(), Pointer(from), source->device(), bytes},
                    asynchronous, stream, meaning);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Twins of second versions keep _v2 in their names: FUNCTION_v2 and FUNCTION_v2_ptds.

CUSPAN_EXPORT_TWINS(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
                    Run(Pointer(to), Pointer(from), bytes, CopySides::kDefault, false, nullptr,
                        meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyAsync, _ptsz,
                    (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                    Run(Pointer(to), Pointer(from), bytes, CopySides::kDefault, true, stream,
                        meaning))

CUSPAN_EXPORT_TWINS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, std::size_t bytes),
                    Run(Pointer(to), from, bytes, CopySides::kHostToDevice, false, nullptr,
                        meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyHtoDAsync_v2, _ptsz,
                    (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream),
                    Run(Pointer(to), from, bytes, CopySides::kHostToDevice, true, stream, meaning))

CUSPAN_EXPORT_TWINS(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, std::size_t bytes),
                    Run(to, Pointer(from), bytes, CopySides::kDeviceToHost, false, nullptr,
                        meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyDtoHAsync_v2, _ptsz,
                    (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                    Run(to, Pointer(from), bytes, CopySides::kDeviceToHost, true, stream, meaning))

CUSPAN_EXPORT_TWINS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
                    Run(Pointer(to), Pointer(from), bytes, CopySides::kDeviceToDevice, false,
                        nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyDtoDAsync_v2, _ptsz,
                    (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                    Run(Pointer(to), Pointer(from), bytes, CopySides::kDeviceToDevice, true, stream,
                        meaning))

CUSPAN_EXPORT_TWINS(cuMemcpyPeer, _ptds,
                    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                     std::size_t bytes),
                    Peer(to, to_context, from, from_context, bytes, false, nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyPeerAsync, _ptsz,
                    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                     std::size_t bytes, CUstream stream),
                    Peer(to, to_context, from, from_context, bytes, true, stream, meaning))
