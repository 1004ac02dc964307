// PatchMemory: chosen bytes of a piece of memory, of which others may be written by the device.
// Bit b of byte i of the mask stands for byte 8 × i + b of the piece. The data has all bytes of the
// piece, not only those that are written: so where a byte lies depends on no other one, and the
// sizes say all that there is to be checked.
#pragma once

#include <cstddef>

namespace cuspan {

// A piece starts at a multiple of this, and is as long: what one byte of the mask stands for.
inline constexpr std::size_t kPatchWordBytes = 8;
// The longest piece. With its mask it fits the parameters of a kernel, 4,096 bytes.
inline constexpr std::size_t kMaxPatchBytes = 2048;

}  // namespace cuspan
