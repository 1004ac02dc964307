// Arithmetic of collectives: elements of NCCL's types, reduced on the CPU.
//
// Threads: any; nothing is shared.
#pragma once

#include <cstddef>
#include <span>

#include "protocol/nccl/nccl.h"

namespace cuspan::softnccl {

// Writes to `out` the reduction of `count` elements of each of `inputs`, element by element, from
// the first input to the last. There is at least one input, of any alignment. `out` may be one of
// them. Integers wrap; their average is the wrapped sum, divided and rounded towards zero. Floats
// of 16 and 8 bits are reduced as float, then rounded once, to the nearest, ties to even. Those of
// 8 bits saturate.
void Reduce(nccl::DataType type, nccl::ReduceOp op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count);

// Multiplies `count` elements by the element at `factor`, in place.
void Multiply(nccl::DataType type, const std::byte* factor, std::byte* data, std::size_t count);

}  // namespace cuspan::softnccl
