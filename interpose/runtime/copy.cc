// Copies of contiguous bytes.
#include "interpose/runtime/copy_kind.h"

namespace cuspan {

Error SidesOf(cudaMemcpyKind kind, CopySides* sides) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      *sides = CopySides::kHostToHost;
      return cudaSuccess;
    case cudaMemcpyHostToDevice:
      *sides = CopySides::kHostToDevice;
      return cudaSuccess;
    case cudaMemcpyDeviceToHost:
      *sides = CopySides::kDeviceToHost;
      return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      *sides = CopySides::kDeviceToDevice;
      return cudaSuccess;
    case cudaMemcpyDefault:
      *sides = CopySides::kDefault;
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

namespace {

Error CopyOfKind(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                 bool asynchronous, cudaStream_t stream, DefaultStream meaning) {
  CopySides sides = CopySides::kDefault;
  // An empty copy may have any direction.
  if (bytes != 0) CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &sides));
  return Copy(destination, source, bytes, sides, asynchronous, stream, meaning);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemcpy, _ptds,
                    (void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind),
                    Answer([&] {
                      return CopyOfKind(destination, source, bytes, kind, false, nullptr, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpyAsync, _ptsz,
                    (void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    Answer([&] {
                      return CopyOfKind(destination, source, bytes, kind, true, stream, meaning);
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
