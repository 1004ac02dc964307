// Arrays and mipmapped arrays.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// On the current device. With levels, a mipmapped one; more than halving leaves something of are
// cut to that. CUDA_ERROR_INVALID_VALUE when there are no arrays of this shape. `flags` of the
// shape as in CUDA_ARRAY3D_….
Error CreateArray(const ArrayShape& shape, unsigned levels, std::uint64_t* array);
// `mipmapped` tells which of the two kinds the program means. Nothing is done for 0.
Error DestroyArray(std::uint64_t array, bool mipmapped);
Error LevelOfArray(std::uint64_t mipmap, unsigned level, std::uint64_t* array);

// Of an array's planes: no format that arrays have here has planes. CUDA_ERROR_INVALID_VALUE, or
// CUDA_ERROR_INVALID_HANDLE for what is no array.
Error PlaneOfArray(std::uint64_t array);
// Of arrays whose memory is mapped later, and of sparse ones, which there are none.
inline Error AboutMappedArray() { return CUDA_ERROR_INVALID_VALUE; }

// use(const Array&) for a plain array or a level.
template <typename Use>
Error AboutArray(std::uint64_t array, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const auto known = session.arrays().Find(array);
    if (known == nullptr || known->levels != 0) return CUDA_ERROR_INVALID_HANDLE;
    use(*known);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
