// Scalar types of the op table missing in C++, and its classes. Structs are generated from the
// table: structs.gen.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cuspan {

// Class of an op; see ops.table.
enum class OpClass { kControl, kAgents, kPosted, kCall, kPush, kChunk };

// Access of a posted op to memory possibly shared with the program; see ops.table.
enum class MemoryUse { kNone, kNames, kMemory, kProgram, kWords, kKernels, kGraph };
// True if the op runs kernels.
constexpr bool RunsKernels(MemoryUse use) {
  return use == MemoryUse::kKernels || use == MemoryUse::kGraph;
}

// Bytes inside a decoded frame: valid as long as the frame.
using Bytes = std::span<const std::byte>;

// The secret of a run.
using Key128 = std::array<std::uint8_t, 16>;
// Compares in constant time.
inline bool SameSecret(const Key128& a, const Key128& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// Unknown value of DeviceDescription::free_bytes.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

}  // namespace cuspan
