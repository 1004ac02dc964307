// Copies of one run of bytes.
#include "interpose/runtime/capture.h"
#include "interpose/runtime/copy_box.h"

namespace cuspan {

Error SidesOf(cudaMemcpyKind kind, Session::CopyRequest::Sides* sides) {
  using Sides = Session::CopyRequest::Sides;
  switch (kind) {
    case cudaMemcpyHostToHost:
      *sides = Sides::kHostToHost;
      return cudaSuccess;
    case cudaMemcpyHostToDevice:
      *sides = Sides::kHostToDevice;
      return cudaSuccess;
    case cudaMemcpyDeviceToHost:
      *sides = Sides::kDeviceToHost;
      return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      *sides = Sides::kDeviceToDevice;
      return cudaSuccess;
    case cudaMemcpyDefault:
      *sides = Sides::kDefault;
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, cudaMemcpyKind kind, bool asynchronous) {
  Session::CopyRequest request{};
  CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &request.sides));
  if (destination == nullptr || source == nullptr) return cudaErrorInvalidValue;
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

cudaMemcpy3DParms ParametersOfRun(void* destination, const void* source, std::size_t bytes,
                                  cudaMemcpyKind kind) {
  cudaMemcpy3DParms out{};
  out.srcPtr = {const_cast<void*>(source), bytes, bytes, 1};
  out.dstPtr = {destination, bytes, bytes, 1};
  out.extent = {bytes, 1, 1};
  out.kind = kind;
  return out;
}

namespace {

Error Copy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
           bool asynchronous, cudaStream_t stream, DefaultStream meaning) {
  const auto copy = [&](Session& session, const StreamTarget& target) -> Error {
    if (bytes == 0) return cudaSuccess;
    return CopyBytes(session, target, destination, source, bytes, kind, asynchronous);
  };
  if (!asynchronous) return OnStream(stream, meaning, copy);
  return InStream(stream, meaning, copy, [&](Session&, const StreamTarget&, Work* work) -> Error {
    Session::CopyRequest::Sides sides{};
    CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &sides));
    if (bytes != 0 && (destination == nullptr || source == nullptr)) return cudaErrorInvalidValue;
    *work = CopyWork{ParametersOfRun(destination, source, bytes, kind)};
    return cudaSuccess;
  });
}

struct PeerCopy {
  void* destination;
  int destination_device;
  const void* source;
  int source_device;
  std::size_t bytes;
};

Error CopyPeer(const PeerCopy& copy, bool asynchronous, cudaStream_t stream,
               DefaultStream meaning) {
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    if (copy.bytes == 0) return cudaSuccess;
    const auto is_device = [&](int device) {
      return device >= 0 && device < session.device_count();
    };
    if (!is_device(copy.destination_device) || !is_device(copy.source_device)) {
      return cudaErrorInvalidDevice;
    }
    if (copy.destination == nullptr || copy.source == nullptr) return cudaErrorInvalidValue;
    Session::CopyRequest request{};
    request.sides = Session::CopyRequest::Sides::kDeviceToDevice;
    request.destination = copy.destination;
    request.source = copy.source;
    request.bytes = copy.bytes;
    request.destination_device = copy.destination_device;
    request.source_device = copy.source_device;
    request.asynchronous = asynchronous;
    return session.Copy(request, target);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemcpy, _ptds,
                    (void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind),
                    Answer([&] {
                      return Copy(destination, source, bytes, kind, false, nullptr, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpyAsync, _ptsz,
                    (void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    Answer([&] {
                      return Copy(destination, source, bytes, kind, true, stream, meaning);
                    }))

// These two have no twins.
CUSPAN_EXPORT cudaError_t cudaMemcpyPeer(void* destination, int destination_device,
                                         const void* source, int source_device, std::size_t bytes) {
  return Answer([&] {
    return CopyPeer({destination, destination_device, source, source_device, bytes}, false, nullptr,
                    DefaultStream::kLegacy);
  });
}

CUSPAN_EXPORT cudaError_t cudaMemcpyPeerAsync(void* destination, int destination_device,
                                              const void* source, int source_device,
                                              std::size_t bytes, cudaStream_t stream) {
  return Answer([&] {
    return CopyPeer({destination, destination_device, source, source_device, bytes}, true, stream,
                    DefaultStream::kLegacy);
  });
}
