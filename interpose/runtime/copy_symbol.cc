// Copies to and from __device__ and __constant__ variables.
#include "interpose/calls/graph/in_stream.h"
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/kernel.h"

namespace cuspan {

Error LocateInVariable(Session& session, const void* symbol, std::size_t offset, std::size_t bytes,
                       std::byte** place) {
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&connection));
  LoadedVariable variable{};
  CUSPAN_RETURN_IF_FAILED(FindVariable(*connection, symbol, &variable));
  if (offset > variable.bytes || bytes > variable.bytes - offset) return cudaErrorInvalidValue;
  *place = HandleOf<std::byte*>(variable.address) + offset;
  return cudaSuccess;
}

namespace {

struct SymbolCopy {
  const void* symbol;
  std::size_t offset;
  std::size_t bytes;
  cudaMemcpyKind kind;
  bool asynchronous;
  cudaStream_t stream;
};

enum class Way { kToSymbol, kFromSymbol };

Error CopySymbol(const SymbolCopy& copy, Way way, void* memory, DefaultStream meaning) {
  const cudaMemcpyKind other =
      way == Way::kToSymbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  CopySides sides = CopySides::kDefault;
  const auto check = [&]() -> Error {
    CUSPAN_RETURN_IF_FAILED(SidesOf(copy.kind, &sides));
    return copy.kind == other || copy.kind == cudaMemcpyDeviceToDevice ||
                   copy.kind == cudaMemcpyDefault
               ? cudaSuccess
               : cudaErrorInvalidMemcpyDirection;
  };
  const auto copy_now = [&](Session& session, const StreamTarget& target) -> Error {
    if (copy.bytes == 0) return cudaSuccess;
    CUSPAN_RETURN_IF_FAILED(check());
    std::byte* place = nullptr;
    CUSPAN_RETURN_IF_FAILED(
        LocateInVariable(session, copy.symbol, copy.offset, copy.bytes, &place));
    return way == Way::kToSymbol
               ? CopyBytes(session, target, place, memory, copy.bytes, sides, copy.asynchronous)
               : CopyBytes(session, target, memory, place, copy.bytes, sides, copy.asynchronous);
  };
  if (!copy.asynchronous) return OnStream(copy.stream, meaning, copy_now);
  return InStream(copy.stream, meaning, copy_now,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    CUSPAN_RETURN_IF_FAILED(check());
                    std::byte* place = nullptr;
                    CUSPAN_RETURN_IF_FAILED(
                        LocateInVariable(session, copy.symbol, copy.offset, copy.bytes, &place));
                    *work = CopyWork{way == Way::kToSymbol
                                         ? BoxOfRun(place, memory, copy.bytes, sides)
                                         : BoxOfRun(memory, place, copy.bytes, sides)};
                    return cudaSuccess;
                  });
}

Error CopyToSymbol(const SymbolCopy& copy, const void* source, DefaultStream meaning) {
  return CopySymbol(copy, Way::kToSymbol, const_cast<void*>(source), meaning);
}

Error CopyFromSymbol(const SymbolCopy& copy, void* destination, DefaultStream meaning) {
  return CopySymbol(copy, Way::kFromSymbol, destination, meaning);
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
