// Fills of device memory with a value of 8, 16 or 32 bits.
#include "interpose/calls/set.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Fills rows of `width` elements.
CUresult FillRows(CUdeviceptr start, std::size_t pitch, std::uint32_t value, unsigned element_bytes,
                  std::size_t width, std::size_t rows, bool asynchronous, CUstream stream,
                  DefaultStream meaning) {
  const auto fill = [&](Session&) -> Error {
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = start;
    set.pitch = pitch;
    set.value = value;
    set.elementSize = element_bytes;
    set.width = width;
    set.height = rows;
    return FillElements(set, asynchronous, stream, meaning);
  };
  const auto answer = [&] { return AnswerInContext(fill); };
  if (!asynchronous) return answer();
  return InHostFunctionsToo(stream, [&] { return AnswerUnlessLost(answer); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Defines the four functions for one element size.
#define CUSPAN_EXPORT_SETS(bits, type, bytes)                                                  \
  CUSPAN_EXPORT_TWINS(cuMemsetD##bits##_v2, _ptds,                                             \
                      (CUdeviceptr start, type value, std::size_t count),                      \
                      FillRows(start, 0, value, bytes, count, 1, false, nullptr, meaning))     \
  CUSPAN_EXPORT_TWINS(cuMemsetD##bits##Async, _ptsz,                                           \
                      (CUdeviceptr start, type value, std::size_t count, CUstream stream),     \
                      FillRows(start, 0, value, bytes, count, 1, true, stream, meaning))       \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuMemsetD2D##bits##_v2, _ptds,                                                           \
      (CUdeviceptr start, std::size_t pitch, type value, std::size_t width, std::size_t rows), \
      FillRows(start, pitch, value, bytes, width, rows, false, nullptr, meaning))              \
  CUSPAN_EXPORT_TWINS(cuMemsetD2D##bits##Async, _ptsz,                                         \
                      (CUdeviceptr start, std::size_t pitch, type value, std::size_t width,    \
                       std::size_t rows, CUstream stream),                                     \
                      FillRows(start, pitch, value, bytes, width, rows, true, stream, meaning))

CUSPAN_EXPORT_SETS(8, unsigned char, 1)
CUSPAN_EXPORT_SETS(16, unsigned short, 2)
CUSPAN_EXPORT_SETS(32, unsigned, 4)
