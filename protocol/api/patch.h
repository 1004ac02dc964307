// PatchMemory: writes selected bytes of a piece of memory; the device may write other bytes of it.
// Bit b of byte i of the mask stands for byte 8 × i + b of the piece. The data contains all bytes
// of the piece, also those not written: every byte has a fixed offset, and only the sizes have to
// be checked.
#pragma once

#include <cstddef>

namespace cuspan {

// Alignment and granularity of a piece: bytes per byte of the mask.
inline constexpr std::size_t kPatchWordBytes = 8;
// Maximum size of a piece. With its mask it fits into the parameters of a kernel, 4,096 bytes.
inline constexpr std::size_t kMaxPatchBytes = 2048;

}  // namespace cuspan
