// Copies to and from __device__ and __constant__ variables.
#include "interpose/runtime/copy_kind.h"
#include "interpose/runtime/function.h"

namespace cuspan {
namespace {

// The place in the variable on the current device, when [offset, offset + bytes) lies inside.
Error PlaceInVariable(Session& session, const void* symbol, std::size_t offset, std::size_t bytes,
                      std::byte** place) {
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(session.CurrentLink(&link));
  LoadedVariable variable{};
  CUSPAN_RETURN_IF_FAILED(FindVariable(*link, symbol, &variable));
  if (offset > variable.bytes || bytes > variable.bytes - offset) return cudaErrorInvalidValue;
  *place = HandleOf<std::byte*>(variable.address) + offset;
  return cudaSuccess;
}

struct SymbolCopy {
  const void* symbol;
  std::size_t offset;
  std::size_t bytes;
  cudaMemcpyKind kind;
  bool asynchronous;
  cudaStream_t stream;
};

// copy(session, target, place in the variable) → Error. `other` is the direction
// that is allowed beside device to device and default.
template <typename Use>
Error WithSymbol(const SymbolCopy& copy, cudaMemcpyKind other, DefaultStream meaning, Use&& use) {
  return OnStream(copy.stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    if (copy.bytes == 0) return cudaSuccess;
    if (copy.kind != other && copy.kind != cudaMemcpyDeviceToDevice &&
        copy.kind != cudaMemcpyDefault) {
      return cudaErrorInvalidMemcpyDirection;
    }
    std::byte* place = nullptr;
    CUSPAN_RETURN_IF_FAILED(PlaceInVariable(session, copy.symbol, copy.offset, copy.bytes, &place));
    return use(session, target, place);
  });
}

Error CopyToSymbol(const SymbolCopy& copy, const void* source, DefaultStream meaning) {
  return WithSymbol(copy, cudaMemcpyHostToDevice, meaning,
                    [&](Session& session, const StreamTarget& target, std::byte* place) {
                      return CopyBytes(session, target, place, source, copy.bytes, copy.kind,
                                       copy.asynchronous);
                    });
}

Error CopyFromSymbol(const SymbolCopy& copy, void* destination, DefaultStream meaning) {
  return WithSymbol(copy, cudaMemcpyDeviceToHost, meaning,
                    [&](Session& session, const StreamTarget& target, const std::byte* place) {
                      return CopyBytes(session, target, destination, place, copy.bytes, copy.kind,
                                       copy.asynchronous);
                    });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(
    cudaMemcpyToSymbol, _ptds,
    (const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
     cudaMemcpyKind kind),
    Answer([&] {
      return CopyToSymbol({symbol, offset, bytes, kind, false, nullptr}, source, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyToSymbolAsync, _ptsz,
    (const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
     cudaMemcpyKind kind, cudaStream_t stream),
    Answer([&] {
      return CopyToSymbol({symbol, offset, bytes, kind, true, stream}, source, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyFromSymbol, _ptds,
    (void* destination, const void* symbol, std::size_t bytes, std::size_t offset,
     cudaMemcpyKind kind),
    Answer([&] {
      return CopyFromSymbol({symbol, offset, bytes, kind, false, nullptr}, destination, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyFromSymbolAsync, _ptsz,
    (void* destination, const void* symbol, std::size_t bytes, std::size_t offset,
     cudaMemcpyKind kind, cudaStream_t stream),
    Answer([&] {
      return CopyFromSymbol({symbol, offset, bytes, kind, true, stream}, destination, meaning);
    }))
