// Filling device memory with a byte.
#include "interpose/runtime/set.h"
#include "interpose/runtime/capture.h"

namespace cuspan {
namespace {

struct FillArea {
  void* start;
  std::size_t pitch;  // From one row to the next, in bytes.
  std::size_t width;  // Of a row, in bytes.
  std::size_t rows;
};

// True when the last byte of the area lies in the allocation of its first.
bool IsInside(Session& session, const FillArea& area) {
  const Session::PointerKind kind = session.Classify(area.start);
  if (kind.kind == Session::PointerKind::kUnknownHost || kind.range_bytes == 0) return false;
  const std::uint64_t room = kind.range_bytes - (NumberOf(area.start) - kind.range_base);
  if (area.width > room) return false;
  return area.rows == 1 || (area.rows - 1) <= (room - area.width) / area.pitch;
}

Error FillOn(Session& session, const StreamTarget& target, const FillArea& area, int value,
             bool asynchronous) {
  if (area.width == 0 || area.rows == 0) return cudaSuccess;
  if (area.rows > 1 && area.pitch < area.width) return cudaErrorInvalidValue;
  // Before the first row is written.
  if (!IsInside(session, area)) return cudaErrorInvalidValue;
  const std::uint64_t start = NumberOf(area.start);
  const auto byte = static_cast<std::uint32_t>(value) & 0xff;
  if (area.rows == 1 || area.pitch == area.width) {
    CUSPAN_RETURN_IF_FAILED(session.Set(start, byte, area.width * area.rows, asynchronous, target));
  } else {
    CUSPAN_RETURN_IF_FAILED(
        session.SetRows({start, area.pitch, area.width, area.rows, byte}, target));
  }
  // The program may look at shared memory itself when the call returns.
  const bool wait = session.shared().Contains(start) &&
                    (!asynchronous || session.managed_variables().Contains(start));
  return wait ? Error(session.SynchronizeStream(target)) : Error(cudaSuccess);
}

Error Fill(const FillArea& area, int value, bool asynchronous, cudaStream_t stream,
           DefaultStream meaning) {
  const auto fill = [&](Session& session, const StreamTarget& target) {
    return FillOn(session, target, area, value, asynchronous);
  };
  if (!asynchronous) return OnStream(stream, meaning, fill);
  return InStream(stream, meaning, fill, [&](Session&, const StreamTarget&, Work* work) -> Error {
    *work = SetWork{
        {area.start, area.pitch, static_cast<unsigned>(value) & 0xff, 1, area.width, area.rows}};
    return cudaSuccess;
  });
}

// The planes of a 3-D area follow each other after `ysize` rows, so that one is
// an area of rows when planes are full and a sequence of areas otherwise.
Error Fill3D(const cudaPitchedPtr& memory, int value, const cudaExtent& extent, bool asynchronous,
             cudaStream_t stream, DefaultStream meaning) {
  if (extent.height == memory.ysize || extent.depth <= 1) {
    return Fill({memory.ptr, memory.pitch, extent.width, extent.height * extent.depth}, value,
                asynchronous, stream, meaning);
  }
  if (extent.height > memory.ysize) return cudaErrorInvalidValue;
  for (std::size_t plane = 0; plane < extent.depth; ++plane) {
    auto* const start = static_cast<std::byte*>(memory.ptr) + plane * memory.pitch * memory.ysize;
    CUSPAN_RETURN_IF_FAILED(Fill({start, memory.pitch, extent.width, extent.height}, value,
                                 asynchronous, stream, meaning));
  }
  return cudaSuccess;
}

}  // namespace

Error SetElements(Session& session, const StreamTarget& target, const cudaMemsetParams& set) {
  if (set.elementSize == 1) {
    return FillOn(session, target, {set.dst, set.pitch, set.width, set.height},
                  static_cast<int>(set.value), true);
  }
  std::size_t width = 0;
  if (__builtin_mul_overflow(set.width, std::size_t{set.elementSize}, &width))
    return cudaErrorInvalidValue;
  if (!IsInside(session, {set.dst, set.pitch, width, set.height})) return cudaErrorInvalidValue;
  for (std::size_t row = 0; row < set.height; ++row) {
    CUSPAN_RETURN_IF_FAILED(session.SetElements(NumberOf(set.dst) + row * set.pitch, set.value,
                                                set.elementSize, set.width, target));
  }
  return cudaSuccess;
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemset, _ptds, (void* memory, int value, std::size_t bytes), Answer([&] {
                      return Fill({memory, bytes, bytes, 1}, value, false, nullptr, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemsetAsync, _ptsz,
                    (void* memory, int value, std::size_t bytes, cudaStream_t stream), Answer([&] {
                      return Fill({memory, bytes, bytes, 1}, value, true, stream, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemset2D, _ptds,
                    (void* memory, std::size_t pitch, int value, std::size_t width,
                     std::size_t height),
                    Answer([&] {
                      return Fill({memory, pitch, width, height}, value, false, nullptr, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemset2DAsync, _ptsz,
                    (void* memory, std::size_t pitch, int value, std::size_t width,
                     std::size_t height, cudaStream_t stream),
                    Answer([&] {
                      return Fill({memory, pitch, width, height}, value, true, stream, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemset3D, _ptds, (cudaPitchedPtr memory, int value, cudaExtent extent),
                    Answer([&] { return Fill3D(memory, value, extent, false, nullptr, meaning); }))

CUSPAN_EXPORT_TWINS(cudaMemset3DAsync, _ptsz,
                    (cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream),
                    Answer([&] { return Fill3D(memory, value, extent, true, stream, meaning); }))
