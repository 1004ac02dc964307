// cuTensorMap*. Maps are encoded in this GPU's own format.
#include "proxy/softgpu/rt/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

constexpr int kMinCapability = 9;  // Major version.

// Common parameters of the functions, in their order.
struct Arguments {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t* sizes;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

CUresult CheckDevice() {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  return driver->configuration.capability_major >= kMinCapability ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_SUPPORTED;
}

// True for 1 to `most`.
bool InRange(std::uint64_t value, std::uint64_t most) { return value - 1 < most; }

// Begins a map without its box. Not implemented: packed elements, interleaved layouts, and swizzles
// with an atom other than 16 bytes.
CUresult Begin(const Arguments& from, TensorMap* map) {
  if (from.rank == 0 || from.rank > kMaxDimensions || from.sizes == nullptr ||
      from.steps == nullptr || (from.strides == nullptr && from.rank > 1))
    return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(from.type) >= kElements ||
      from.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      static_cast<unsigned>(from.swizzle) > CU_TENSOR_MAP_SWIZZLE_128B)
    return CUDA_ERROR_NOT_SUPPORTED;
  map->magic = TensorMap::kMagic;
  map->address = reinterpret_cast<std::uintptr_t>(from.address);
  map->rank = static_cast<std::uint8_t>(from.rank);
  map->element = static_cast<std::uint8_t>(from.type);
  map->swizzle = static_cast<std::uint8_t>(from.swizzle);
  map->fill = static_cast<std::uint8_t>(from.fill);
  for (unsigned i = 0; i < from.rank; ++i) {
    if (!InRange(from.sizes[i], std::uint64_t{1} << 32)) return CUDA_ERROR_INVALID_VALUE;
    map->last[i] = static_cast<std::uint32_t>(from.sizes[i] - 1);
    // The step of the first dimension is ignored.
    map->steps[i] = static_cast<std::uint8_t>(std::min(from.steps[i], 255U));
    if (i == 0) continue;
    if (from.strides[i - 1] >= std::uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
    map->strides[i - 1] = from.strides[i - 1];
  }
  return CUDA_SUCCESS;
}

CUresult Finish(const TensorMap& map, CUtensorMap* out) {
  if (out == nullptr || reinterpret_cast<std::uintptr_t>(out) % 64 != 0 || map.Problem() != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(out->opaque, 0, sizeof out->opaque);
  std::memcpy(out->opaque, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckDevice());
  TensorMap map;
  CUSPAN_SOFT_RETURN_IF_ERROR(
      Begin({type, rank, address, sizes, strides, steps, interleave, swizzle, fill}, &map));
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < rank; ++i)
    map.box[i] = static_cast<std::uint16_t>(std::min(box[i], 0xffffU));
  return Finish(map, out);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower, const int* upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckDevice());
  TensorMap map;
  CUSPAN_SOFT_RETURN_IF_ERROR(
      Begin({type, rank, address, sizes, strides, steps, interleave, swizzle, fill}, &map));
  if (rank < 3 || lower == nullptr || upper == nullptr) return CUDA_ERROR_INVALID_VALUE;
  map.im2col = 1;
  map.box[0] = static_cast<std::uint16_t>(std::min(channels, 0xffffU));
  map.box[1] = static_cast<std::uint16_t>(std::min(pixels, 0xffffU));
  for (unsigned i = 0; i < rank - 2; ++i) {
    if (std::min(lower[i], upper[i]) < INT16_MIN || std::max(lower[i], upper[i]) > INT16_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    map.lower[i] = static_cast<std::int16_t>(lower[i]);
    map.upper[i] = static_cast<std::int16_t>(upper[i]);
  }
  return Finish(map, out);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* out, void* address) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckDevice());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  std::memcpy(&map, out->opaque, sizeof map);
  map.address = reinterpret_cast<std::uintptr_t>(address);
  return Finish(map, out);
}

}  // namespace cuspan::softgpu
