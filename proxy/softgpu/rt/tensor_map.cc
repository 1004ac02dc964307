#include "proxy/softgpu/rt/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace cuspan::softgpu {
namespace {

constexpr unsigned kRowUnit = 16;  // Bytes: unit of rows in shared memory.
constexpr unsigned kMaxBox = 256, kMaxPixels = 1024, kMaxStep = 8;

// Types by their numbers in tensormap.replace. (PTX ISA, "tensormap.replace")
constexpr Element kElementsOfPtx[] = {
    Element::kU8,   Element::kU16,  Element::kU32,    Element::kS32,    Element::kU64,
    Element::kS64,  Element::kF16,  Element::kF32,    Element::kF32Ftz, Element::kF64,
    Element::kBf16, Element::kTf32, Element::kTf32Ftz};
constexpr std::uint8_t kNoElement = 0xff;

// Saturates values too large for their field: both are invalid in the same way.
template <typename T>
T Narrow(std::uint64_t value) {
  return static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
}

template <typename T, std::size_t N>
bool Set(T (&fields)[N], std::uint32_t ordinal, std::uint64_t value) {
  if (ordinal >= N) return false;
  fields[ordinal] = Narrow<T>(value);
  return true;
}

bool Replace(TensorMap& map, TensorField field, std::uint32_t ordinal, std::uint64_t value) {
  const auto small = Narrow<std::uint8_t>(value);
  switch (field) {
    case TensorField::kBox:
      return Set(map.box, ordinal, value);
    case TensorField::kSize:
      return Set(map.last, ordinal, static_cast<std::uint32_t>(value - 1));  // 2^32 is passed as 0.
    case TensorField::kStride:
      return Set(map.strides, ordinal, value);
    case TensorField::kStep:
      return Set(map.steps, ordinal, value);
    case TensorField::kAddress:
      map.address = value;
      return true;
    case TensorField::kRank:  // Passed as rank - 1.
      map.rank = Narrow<std::uint8_t>(value + 1);
      return true;
    case TensorField::kElement:
      map.element = value < std::size(kElementsOfPtx)
                        ? static_cast<std::uint8_t>(kElementsOfPtx[value])
                        : kNoElement;
      return true;
    case TensorField::kInterleave:
      map.interleave = small;
      return true;
    case TensorField::kSwizzle:
      map.swizzle = small;
      return true;
    case TensorField::kAtomicity:
      map.atomicity = small;
      return true;
    case TensorField::kFill:
      map.fill = small;
      return true;
  }
  return false;
}

}  // namespace

unsigned SwizzleSpan(const TensorMap& map) {
  return map.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : 16U << map.swizzle;
}

const char* TensorMap::Problem() const {
  if (magic != kMagic) return "the memory holds no tensor map";
  if (rank == 0 || rank > kMaxDimensions) return "a tensor map has 1 to 5 dimensions";
  if (element >= kElements) return "the type of the elements is not implemented";
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return "interleaved layouts are not implemented";
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B || atomicity != 0)
    return "only swizzles of 16 bytes are implemented";
  if (fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA ||
      (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !IsFloat(static_cast<Element>(element))))
    return "the out-of-bounds fill does not fit the type of the elements";
  if (address % kRowUnit != 0) return "the tensor's address is not a multiple of 16";
  for (unsigned i = 1; i < rank; ++i) {
    if (strides[i - 1] % kRowUnit != 0) return "a stride is not a multiple of 16";
    if (steps[i] == 0 || steps[i] > kMaxStep) return "an element stride is not 1 to 8";
  }
  for (unsigned i = 0; i < (im2col != 0 ? 2U : rank); ++i) {
    const bool pixels = im2col != 0 && i == 1;
    if (box[i] == 0 || box[i] > (pixels ? kMaxPixels : kMaxBox))
      return "a dimension of the box is too small or too large";
  }
  if (im2col != 0) {
    if (rank < 3) return "im2col needs 3 to 5 dimensions";
    for (unsigned i = 0; i < rank - 2U; ++i)
      if (std::int64_t{last[i + 1]} + upper[i] < lower[i]) return "the box of pixels is empty";
  }
  const unsigned row = box[0] * BytesOf(static_cast<Element>(element));
  if (row % kRowUnit != 0) return "the rows of the box are not a multiple of 16 bytes";
  if (const unsigned span = SwizzleSpan(*this); span != 0 && row > span)
    return "the rows of the box are longer than the swizzle";
  return nullptr;
}

bool ReplaceField(void* memory, TensorField field, std::uint32_t ordinal, std::uint64_t value) {
  TensorMap map;
  std::memcpy(&map, memory, sizeof map);
  if (map.magic != TensorMap::kMagic && map.magic != 0) return false;
  map.magic = TensorMap::kMagic;
  if (!Replace(map, field, ordinal, value)) return false;
  std::memcpy(memory, &map, sizeof map);
  return true;
}

}  // namespace cuspan::softgpu
