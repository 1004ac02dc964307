// Arrays and mipmapped arrays.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Creates an array on the current device; with `levels`, a mipmapped one. Levels beyond the number
// possible by halving are cut. CUDA_ERROR_INVALID_VALUE for an invalid shape. `flags` of the shape:
// as in CUDA_ARRAY3D_….
Error CreateArray(const ArrayShape& shape, unsigned levels, std::uint64_t* array);
// `mipmapped`: kind of array expected by the caller. Ignores array 0.
Error DestroyArray(std::uint64_t array, bool mipmapped);
Error LevelOfArray(std::uint64_t mipmap, unsigned level, std::uint64_t* array);

// Always fails: no array format supported here has planes. CUDA_ERROR_INVALID_VALUE, or
// CUDA_ERROR_INVALID_HANDLE for an invalid handle.
Error PlaneOfArray(std::uint64_t array);
// Result of queries about sparse arrays and deferred mapping, not supported here.
inline Error MappedArrayError() { return CUDA_ERROR_INVALID_VALUE; }

// Calls use(const Array&) for a plain array or a level.
template <typename Use>
Error WithArray(std::uint64_t array, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const auto known = session.arrays().Find(array);
    if (known == nullptr || known->levels != 0) return CUDA_ERROR_INVALID_HANDLE;
    use(*known);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
