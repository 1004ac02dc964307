// Fills of device memory with a byte.
#include "interpose/calls/set.h"

#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// Planes of a 3-D area are `ysize` rows apart. If all rows of a plane are filled, the area is one
// sequence of rows. Otherwise each plane is filled separately.
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
