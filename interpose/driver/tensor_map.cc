// Tensor maps.
#include "interpose/calls/tensor_map.h"

#include <algorithm>

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

constexpr cuuint32_t kMaxRank = 5;

// Arguments common to all functions, in the order of their parameters.
struct TensorArguments {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t* sizes;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

// Checks only the arguments needed to read the arrays. The rest is checked when the map is encoded.
Error ReadLayout(const TensorArguments& arguments, TensorLayout* layout) {
  if (arguments.rank == 0 || arguments.rank > kMaxRank || arguments.sizes == nullptr ||
      arguments.steps == nullptr || (arguments.strides == nullptr && arguments.rank > 1))
    return CUDA_ERROR_INVALID_VALUE;
  layout->type = static_cast<std::uint32_t>(arguments.type);
  layout->rank = arguments.rank;
  layout->address = NumberOf(arguments.address);
  std::copy_n(arguments.sizes, arguments.rank, layout->sizes.begin());
  std::copy_n(arguments.strides, arguments.rank - 1, layout->strides.begin());
  std::copy_n(arguments.steps, arguments.rank, layout->steps.begin());
  layout->interleave = static_cast<std::uint32_t>(arguments.interleave);
  layout->swizzle = static_cast<std::uint32_t>(arguments.swizzle);
  layout->promotion = static_cast<std::uint32_t>(arguments.promotion);
  layout->fill = static_cast<std::uint32_t>(arguments.fill);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    TensorMapTiled op;
    CUSPAN_RETURN_IF_FAILED(ReadLayout(
        {type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill},
        &op.layout));
    if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(box, rank, op.box.begin());
    return EncodeTensorMap(session, connection, op, map);
  });
}

CUSPAN_EXPORT CUresult cuTensorMapEncodeIm2col(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower, const int* upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    TensorMapIm2col op;
    CUSPAN_RETURN_IF_FAILED(ReadLayout(
        {type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill},
        &op.layout));
    if (rank < 3 || lower == nullptr || upper == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(lower, rank - 2, op.lower.begin());
    std::copy_n(upper, rank - 2, op.upper.begin());
    op.channels = channels;
    op.pixels = pixels;
    return EncodeTensorMap(session, connection, op, map);
  });
}

CUSPAN_EXPORT CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, int lower, int upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t* steps, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    TensorMapIm2colWide op;
    CUSPAN_RETURN_IF_FAILED(ReadLayout(
        {type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill},
        &op.layout));
    op.lower = lower;
    op.upper = upper;
    op.channels = channels;
    op.pixels = pixels;
    op.mode = static_cast<std::uint32_t>(mode);
    return EncodeTensorMap(session, connection, op, map);
  });
}

CUSPAN_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    return ReplaceTensorAddress(session, connection, address, map);
  });
}
