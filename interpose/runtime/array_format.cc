#include "interpose/runtime/array_format.h"

#include <iterator>

namespace cuspan {
namespace {

struct Row {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
};

constexpr Row kRows[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};

}  // namespace

std::optional<ElementFormat> FormatOf(const cudaChannelFormatDesc& desc) {
  const int bits[] = {desc.x, desc.y, desc.z, desc.w};
  std::uint32_t channels = 0;
  while (channels < std::size(bits) && bits[channels] != 0) ++channels;
  if (channels != 1 && channels != 2 && channels != 4) return std::nullopt;
  for (std::uint32_t i = 0; i < std::size(bits); ++i) {
    if (bits[i] != (i < channels ? desc.x : 0)) return std::nullopt;
  }
  for (const Row& row : kRows) {
    if (row.kind == desc.f && row.bits == desc.x) return ElementFormat{row.format, channels};
  }
  return std::nullopt;
}

cudaChannelFormatDesc DescOf(const ElementFormat& format) {
  for (const Row& row : kRows) {
    if (row.format != static_cast<CUarray_format>(format.format)) continue;
    const auto bits = [&](std::uint32_t channel) {
      return channel < format.channels ? row.bits : 0;
    };
    return {bits(0), bits(1), bits(2), bits(3), row.kind};
  }
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

}  // namespace cuspan
