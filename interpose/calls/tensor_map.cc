#include "interpose/calls/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/context_connection.h"

namespace cuspan {
namespace {

// Bits of one element; packed elements without the gaps between them.
constexpr unsigned kElementBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
// Maximum bytes of a box's innermost dimension, by swizzle.
constexpr unsigned kSwizzleBytes[] = {0, 32, 64, 128, 128, 128, 128};

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 32;
constexpr std::uint64_t kStrideLimit = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxBox = 256;
constexpr std::uint32_t kMaxStep = 8;
constexpr std::uint32_t kMaxPixels = 1024;
constexpr std::uint32_t kPackedInGroups = 128;  // Group size of elements packed with gaps.

// True for packing with gaps: 16 elements in 16 bytes.
bool HasGaps(std::uint32_t type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
         type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

bool IsFloat(std::uint32_t type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

bool IsMap(const CUtensorMap* map) {
  return map != nullptr && reinterpret_cast<std::uintptr_t>(map) % 64 == 0;
}

// Alignment of addresses and strides, in bytes.
std::uint64_t Granularity(const TensorLayout& layout) {
  return layout.interleave == CU_TENSOR_MAP_INTERLEAVE_32B || HasGaps(layout.type) ? 32 : 16;
}

bool MaySwizzle(std::uint32_t type, std::uint32_t swizzle) {
  if (!HasGaps(type)) return true;
  return swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
         swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B ||
         (swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
          type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B);
}

bool MayHaveSizes(const TensorLayout& layout) {
  const auto* const end = layout.sizes.data() + layout.rank;
  if (!std::all_of(layout.sizes.data(), end,
                   [](std::uint64_t size) { return size != 0 && size <= kMaxSize; }))
    return false;
  if (HasGaps(layout.type)) return layout.sizes[0] % kPackedInGroups == 0;
  return layout.type != CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B || layout.sizes[0] % 2 == 0;
}

bool MayHaveStrides(const TensorLayout& layout) {
  const std::uint64_t granularity = Granularity(layout);
  return std::all_of(
      layout.strides.data(), layout.strides.data() + layout.rank - 1,
      [=](std::uint64_t stride) { return stride % granularity == 0 && stride < kStrideLimit; });
}

bool MayHaveSteps(const TensorLayout& layout) {
  // Without interleaving the innermost dimension has no step.
  const unsigned first = layout.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 0;
  for (unsigned i = first; i < layout.rank; ++i)
    if (layout.steps[i] == 0 || layout.steps[i] > kMaxStep) return false;
  return true;
}

// Checks the parts common to all tensor maps. `inner`: elements copied of the innermost dimension.
Error CheckLayout(const TensorLayout& layout, std::uint32_t inner) {
  if (layout.rank == 0 || layout.rank > layout.sizes.size() ||
      layout.type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B ||
      layout.interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
      layout.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
      layout.promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
      layout.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return CUDA_ERROR_INVALID_VALUE;
  if (layout.address % Granularity(layout) != 0 || !MayHaveSizes(layout) ||
      !MayHaveStrides(layout) || !MayHaveSteps(layout) ||
      !MaySwizzle(layout.type, layout.swizzle) ||
      (layout.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !IsFloat(layout.type)))
    return CUDA_ERROR_INVALID_VALUE;
  if (HasGaps(layout.type) && inner != kPackedInGroups) return CUDA_ERROR_INVALID_VALUE;
  if (layout.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) {
    const std::uint32_t bits = inner * kElementBits[layout.type];
    const bool fits =
        layout.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || bits <= 8 * kSwizzleBytes[layout.swizzle];
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const bool allowed = layout.rank >= 3 && layout.type != CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
                       (layout.interleave != CU_TENSOR_MAP_INTERLEAVE_32B ||
                        layout.swizzle == CU_TENSOR_MAP_SWIZZLE_32B);
  return allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Error CheckTiled(const TensorMapTiled& op) {
  const TensorLayout& layout = op.layout;
  if (layout.rank > op.box.size() ||
      std::any_of(op.box.data(), op.box.data() + layout.rank,
                  [](std::uint32_t box) { return box == 0 || box > kMaxBox; }))
    return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(CheckLayout(layout, op.box[0]));
  const bool whole = layout.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
                     op.box[0] * kElementBits[layout.type] % (16 * 8) == 0;
  return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Checks pixels. Offsets of corners must be in [-limit, limit).
Error CheckPixels(const TensorLayout& layout, std::uint32_t channels,
                  std::span<const std::int32_t> corners, std::int32_t limit) {
  if (layout.rank < 3 || channels > kMaxBox ||
      std::any_of(corners.begin(), corners.end(),
                  [=](std::int32_t offset) { return offset < -limit || offset >= limit; }))
    return CUDA_ERROR_INVALID_VALUE;
  return CheckLayout(layout, channels);
}

Error CheckIm2col(const TensorMapIm2col& op) {
  if (op.layout.rank < 3 || op.layout.rank > 5 || op.pixels > kMaxPixels)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr std::int32_t kLimits[] = {32768, 128, 16};  // Indexed by dimensions - 1.
  const std::size_t dimensions = op.layout.rank - 2;
  const std::int32_t limit = kLimits[dimensions - 1];
  CUSPAN_RETURN_IF_FAILED(
      CheckPixels(op.layout, op.channels, std::span(op.lower).first(dimensions), limit));
  return CheckPixels(op.layout, op.channels, std::span(op.upper).first(dimensions), limit);
}

Error CheckIm2colWide(const TensorMapIm2colWide& op) {
  const std::uint32_t swizzle = op.layout.swizzle;
  if (op.mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 ||
      (op.mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W && op.pixels > kMaxPixels) ||
      (swizzle != CU_TENSOR_MAP_SWIZZLE_64B && swizzle != CU_TENSOR_MAP_SWIZZLE_128B &&
       swizzle != CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B))
    return CUDA_ERROR_INVALID_VALUE;
  const std::int32_t corners[] = {op.lower, op.upper};
  return CheckPixels(op.layout, op.channels, corners, 32768);
}

// Kernels use a map's memory without naming it in their arguments. Memory of the program is
// therefore exposed to the device when the map is made.

// Registered memory has another address on the device than in the program.
std::uint64_t SeenByDevice(Session& session, std::uint64_t address) {
  return session.region()
      .registered()
      .DeviceAddress(HandleOf<const void*>(address))
      .value_or(address);
}

// Gets the map of a checked op.
template <typename Op>
Error Encode(ContextConnection& connection, const Op& op, CUtensorMap* map) {
  TensorMaps::Map made{};
  const auto ask = [&connection](const Op& asked, typename Op::Reply* reply) {
    return connection.Call(asked, reply);
  };
  CUSPAN_RETURN_IF_FAILED(connection.tensor_maps().Get(op, ask, &made));
  static_assert(sizeof made == sizeof map->opaque);
  std::memcpy(map->opaque, made.data(), sizeof made);
  return CUDA_SUCCESS;
}

template <typename Op, typename Check>
Error CheckAndEncode(Session& session, ContextConnection& connection, Op& op, CUtensorMap* map,
                     Check&& check) {
  if (!IsMap(map)) return CUDA_ERROR_INVALID_VALUE;
  op.layout.address = SeenByDevice(session, op.layout.address);
  CUSPAN_RETURN_IF_FAILED(check(op));
  CUSPAN_RETURN_IF_FAILED(session.region().Expose(op.layout.address));
  return Encode(connection, op, map);
}

}  // namespace

Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapTiled op,
                      CUtensorMap* map) {
  return CheckAndEncode(session, connection, op, map, CheckTiled);
}

Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2col op,
                      CUtensorMap* map) {
  return CheckAndEncode(session, connection, op, map, CheckIm2col);
}

Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2colWide op,
                      CUtensorMap* map) {
  return CheckAndEncode(session, connection, op, map, CheckIm2colWide);
}

Error ReplaceTensorAddress(Session& session, ContextConnection& connection, const void* address,
                           CUtensorMap* map) {
  TensorMapAddress op;
  op.address = SeenByDevice(session, NumberOf(address));
  if (!IsMap(map) || op.address % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(session.region().Expose(op.address));
  std::memcpy(op.map.data(), map->opaque, sizeof map->opaque);
  return Encode(connection, op, map);
}

}  // namespace cuspan
