#include "interpose/calls/copy.h"

#include "interpose/calls/base/synchronous_memory.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {
namespace {

Error CopyOn(Session& session, const StreamTarget& target, const CopyRequest& request) {
  CUSPAN_RETURN_IF_FAILED(session.copies().Copy(request, target));
  if (request.asynchronous) return CUDA_SUCCESS;
  return WaitIfSynchronous(session, target, {request.destination, request.source});
}

}  // namespace

Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, CopySides sides, bool asynchronous) {
  if (destination == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest request;
  request.destination = destination;
  request.source = source;
  request.bytes = bytes;
  request.sides = sides;
  request.asynchronous = asynchronous;
  return CopyOn(session, target, request);
}

Error Copy(void* destination, const void* source, std::size_t bytes, CopySides sides,
           bool asynchronous, CUstream stream, DefaultStream meaning) {
  const auto copy = [&](Session& session, const StreamTarget& target) -> Error {
    if (bytes == 0) return CUDA_SUCCESS;
    return CopyBytes(session, target, destination, source, bytes, sides, asynchronous);
  };
  if (!asynchronous) return OnStream(stream, meaning, copy);
  return InStream(stream, meaning, copy, [&](Session&, const StreamTarget&, Work* work) -> Error {
    if (bytes != 0 && (destination == nullptr || source == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    *work = CopyWork{BoxOfRun(destination, source, bytes, sides)};
    return CUDA_SUCCESS;
  });
}

Error CopyPeer(const PeerCopy& copy, bool asynchronous, CUstream stream, DefaultStream meaning) {
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    if (copy.bytes == 0) return CUDA_SUCCESS;
    const auto is_device = [&](int device) {
      return device >= 0 && device < session.devices().count();
    };
    if (!is_device(copy.destination_device) || !is_device(copy.source_device)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    if (copy.destination == nullptr || copy.source == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CopyRequest request;
    request.sides = CopySides::kDeviceToDevice;
    request.destination = copy.destination;
    request.source = copy.source;
    request.bytes = copy.bytes;
    request.destination_device = copy.destination_device;
    request.source_device = copy.source_device;
    request.asynchronous = asynchronous;
    return CopyOn(session, target, request);
  });
}

}  // namespace cuspan
