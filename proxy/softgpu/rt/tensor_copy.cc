#include "proxy/softgpu/rt/tensor_copy.h"

#include <algorithm>
#include <cstring>

#include "proxy/softgpu/rt/tensor_map.h"

namespace cuspan::softgpu {
namespace {

constexpr unsigned kSwizzleUnit = 16;         // Bytes moved together by a swizzle.
constexpr std::uintptr_t kSharedStart = 128;  // Alignment of the box in shared memory.

// Copies a box row by row. A row consists of adjacent elements in the innermost dimension.
class BoxCopy {
 public:
  BoxCopy(const TensorOperation& operation, const TensorMap& map, std::uint8_t* shared,
          ThreadContext* checked)
      : operation_(operation),
        map_(map),
        element_(static_cast<Element>(map.element)),
        element_bytes_(BytesOf(element_)),
        row_bytes_(map.box[0] * element_bytes_),
        // A swizzle moves chunks anywhere in its span.
        pitch_(std::max(row_bytes_, SwizzleSpan(map))),
        checked_(checked),
        shared_(reinterpret_cast<std::uintptr_t>(shared)) {}

  // Copies the next row of the box, beginning at these coordinates. A part of it may be outside in
  // the first dimension; in the others, all of it or nothing.
  void Row(const std::int64_t* at) {
    const std::uintptr_t row = shared_;
    shared_ += pitch_;
    bytes_ += row_bytes_;
    bool inside = true;
    std::uint64_t address = map_.address;
    for (unsigned i = 1; i < map_.rank; ++i) {
      inside = inside && at[i] >= 0 && at[i] <= map_.last[i];
      address += static_cast<std::uint64_t>(at[i]) * map_.strides[i - 1];
    }
    for (unsigned offset = 0; offset < row_bytes_; offset += kSwizzleUnit)
      Chunk(Swizzled(row + offset), inside, address, at[0] + offset / element_bytes_);
  }

  unsigned pitch() const { return pitch_; }
  std::uint32_t bytes() const { return bytes_; }

 private:
  // Address bits from 128 bytes up select the chunk in the span.
  std::uint8_t* Swizzled(std::uintptr_t address) const {
    if (const unsigned span = SwizzleSpan(map_); span != 0)
      address ^= address >> 3 & (span - kSwizzleUnit);
    return reinterpret_cast<std::uint8_t*>(address);
  }

  // Copies 16 bytes between shared memory and the tensor's row at `address`, at element `first`.
  void Chunk(std::uint8_t* shared, bool inside, std::uint64_t address, std::int64_t first) const {
    const std::int64_t count = kSwizzleUnit / element_bytes_;
    const std::int64_t end =
        inside ? std::min<std::int64_t>(count, std::int64_t{map_.last[0]} + 1 - first) : 0;
    const std::int64_t begin = std::min(std::max<std::int64_t>(-first, 0), count);
    if (operation_.kind == TensorCopyKind::kLoad && (begin > 0 || end < count)) Fill(shared);
    if (begin >= end) return;
    auto* const tensor = reinterpret_cast<std::uint8_t*>(
        address + static_cast<std::uint64_t>(first + begin) * element_bytes_);
    std::uint8_t* const box = shared + static_cast<std::uint64_t>(begin) * element_bytes_;
    const auto elements = static_cast<std::size_t>(end - begin);
    if (checked_ != nullptr)
      cuspan_rt_check(checked_, tensor, elements * element_bytes_, 1,
                      (operation_.kind == TensorCopyKind::kLoad ? 0 : kCheckWrite) | kCheckAlone,
                      "a copy by a tensor map");
    switch (operation_.kind) {
      case TensorCopyKind::kLoad:
        std::memcpy(box, tensor, elements * element_bytes_);
        break;
      case TensorCopyKind::kStore:
        std::memcpy(tensor, box, elements * element_bytes_);
        break;
      case TensorCopyKind::kReduce:
        Reduce(element_, operation_.reduction, tensor, box, elements);
        break;
    }
  }

  // Fills with zeros, or with the NaN of all bits except the sign.
  void Fill(std::uint8_t* chunk) const {
    const bool zeros = map_.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    for (unsigned i = 0; i < kSwizzleUnit; ++i)
      chunk[i] = zeros ? 0 : i % element_bytes_ == element_bytes_ - 1 ? 0x7f : 0xff;
  }

  const TensorOperation operation_;
  const TensorMap& map_;
  const Element element_;
  const unsigned element_bytes_, row_bytes_, pitch_;
  ThreadContext* const checked_;
  std::uintptr_t shared_;
  std::uint32_t bytes_ = 0;
};

// Returns the number of rows of the box.
std::uint64_t RowsOf(const TensorMap& map) {
  if (map.im2col != 0) return map.box[1];
  std::uint64_t rows = 1;
  for (unsigned i = 1; i < map.rank; ++i) rows *= (map.box[i] + map.steps[i] - 1U) / map.steps[i];
  return rows;
}

// Copies the rows of a box of any rank, the second dimension innermost.
void CopyTile(const TensorMap& map, const std::int32_t* words, BoxCopy& copy) {
  std::int64_t at[kMaxDimensions] = {};
  unsigned done[kMaxDimensions] = {};  // Elements done in each dimension of the box.
  for (unsigned i = 0; i < map.rank; ++i) at[i] = words[i];
  for (unsigned i = 0; i != map.rank;) {
    copy.Row(at);
    for (i = 1; i < map.rank; ++i) {
      at[i] += map.steps[i];
      done[i] += map.steps[i];
      if (done[i] < map.box[i]) break;
      at[i] = words[i];
      done[i] = 0;
    }
  }
}

// Copies pixels in order through the box of pixels of an image, then of the next image. Each is
// read at its position plus the offsets. The first dimension counts channels, the last images.
void CopyPixels(const TensorMap& map, const std::int32_t* words, BoxCopy& copy) {
  const unsigned spatial = map.rank - 2U;
  std::int64_t pixel[kMaxDimensions] = {};
  for (unsigned i = 0; i < map.rank; ++i) pixel[i] = words[i];
  for (unsigned done = 0; done < map.box[1]; ++done) {
    std::int64_t at[kMaxDimensions];
    std::copy_n(pixel, kMaxDimensions, at);
    for (unsigned i = 0; i < spatial; ++i) at[i + 1] += words[kTensorOffsetWord + i];
    copy.Row(at);
    unsigned i = 0;
    for (; i < spatial; ++i) {
      pixel[i + 1] += map.steps[i + 1];
      if (pixel[i + 1] <= std::int64_t{map.last[i + 1]} + map.upper[i]) break;
      pixel[i + 1] = map.lower[i];
    }
    if (i == spatial) ++pixel[map.rank - 1U];
  }
}

}  // namespace

TensorCopied CopyTensor(const TensorOperation& operation, const void* memory,
                        const std::int32_t* words, std::uint8_t* shared, std::uint64_t room,
                        ThreadContext* checked) {
  // Error of a GPU for an unreadable map.
  constexpr CUresult kNotAllowed = CUDA_ERROR_ILLEGAL_INSTRUCTION;
  TensorMap map;
  std::memcpy(&map, memory, sizeof map);
  if (const char* const problem = map.Problem(); problem != nullptr) return {kNotAllowed, problem};
  if (map.rank != operation.dimensions)
    return {kNotAllowed, "the tensor map has another number of dimensions"};
  if ((map.im2col != 0) != operation.im2col)
    return {kNotAllowed, "tile copies need tiled tensor maps, im2col copies need im2col ones"};
  if (operation.kind == TensorCopyKind::kReduce &&
      !MayReduce(static_cast<Element>(map.element), operation.reduction))
    return {kNotAllowed, "the reduction is not defined for the type of the elements"};
  if (reinterpret_cast<std::uintptr_t>(shared) % kSharedStart != 0)
    return {CUDA_ERROR_MISALIGNED_ADDRESS, "the box in shared memory is not aligned to 128 bytes"};
  BoxCopy copy(operation, map, shared, checked);
  if (RowsOf(map) * copy.pitch() > room)
    return {CUDA_ERROR_ILLEGAL_ADDRESS, "the box goes beyond the block's shared memory"};
  if (operation.im2col)
    CopyPixels(map, words, copy);
  else
    CopyTile(map, words, copy);
  return {CUDA_SUCCESS, nullptr, copy.bytes()};
}

}  // namespace cuspan::softgpu
