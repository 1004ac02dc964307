// Headers of NumPy's .npy files, versions 1.0 to 3.0.
// Source: numpy.lib.format, "NPY format".
#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "store/layout/geometry.h"

namespace cuspan::store {

// Bytes at the start of a file with the whole header of any array that is read here.
inline constexpr std::size_t kMaxNpyHeader = 4096;

// Shape of the array with this start of its file. kUnsupported for arrays that numpy.load reads,
// but kernels cannot: big-endian, structured, in Fortran's order, of more than 4 dimensions.
// kInvalid for other elements than wanted, and for anything but a header.
Result<ArrayShape> ShapeOfNpy(std::span<const std::byte> start, const Element& wanted);

}  // namespace cuspan::store
