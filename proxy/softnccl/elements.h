// What collectives compute: elements of NCCL's types, reduced on the CPU.
//
// Threads: any; nothing is shared.
#pragma once

#include <cstddef>
#include <span>

#include "protocol/nccl/nccl.h"

namespace cuspan::softnccl {

// Writes to `out` the reduction of `count` elements of each of `inputs` (one at least, none aligned
// in any way), element by element, from the first input to the last. `out` may be one of them.
// Integers wrap; an average of them is the wrapped sum, divided and rounded towards zero. Types of
// 16 and 8 bits are reduced as float and rounded once, to the nearest, ties to even; those of 8
// bits saturate.
void Reduce(nccl::DataType type, nccl::ReduceOp op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count);

// Multiplies `count` elements by the one at `factor`, in place.
void Multiply(nccl::DataType type, const std::byte* factor, std::byte* data, std::size_t count);

}  // namespace cuspan::softnccl
