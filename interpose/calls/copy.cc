#include "interpose/calls/copy.h"

#include "interpose/calls/graph/capture.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {

Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, CopySides sides, bool asynchronous) {
  Session::CopyRequest request{};
  request.sides = sides;
  if (destination == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  request.destination = destination;
  request.source = source;
  request.bytes = bytes;
  request.destination_device = -1;
  request.source_device = -1;
  // A managed variable's memory by name and by address are two: equal when the device is at rest.
  const bool variable = session.managed_variables().Contains(NumberOf(destination)) ||
                        session.managed_variables().Contains(NumberOf(source));
  if (variable) CUSPAN_RETURN_IF_FAILED(session.SynchronizeStream(target));
  request.asynchronous = asynchronous && !variable;
  CUSPAN_RETURN_IF_FAILED(session.Copy(request, target));
  // The program may look at shared memory itself when the call returns.
  return request.asynchronous ? CUDA_SUCCESS : target.link->Synchronized(false);
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
      return device >= 0 && device < session.device_count();
    };
    if (!is_device(copy.destination_device) || !is_device(copy.source_device)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    if (copy.destination == nullptr || copy.source == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Session::CopyRequest request{};
    request.sides = CopySides::kDeviceToDevice;
    request.destination = copy.destination;
    request.source = copy.source;
    request.bytes = copy.bytes;
    request.destination_device = copy.destination_device;
    request.source_device = copy.source_device;
    request.asynchronous = asynchronous;
    return session.Copy(request, target);
  });
}

}  // namespace cuspan
