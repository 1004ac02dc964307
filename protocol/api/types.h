// The scalar types of the op table that C++ does not have by itself, and its classes. Structs are
// made from the table: structs.gen.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cuspan {

// Who waits for an op; see ops.table.
enum class OpClass { kControl, kPosted, kCall, kPush, kChunk };

// Bytes inside the frame that was decoded: valid as long as the frame is.
using Bytes = std::span<const std::byte>;

// The secret of a run.
using Key128 = std::array<std::uint8_t, 16>;
// Compares in a time that does not depend on where they differ.
inline bool SameSecret(const Key128& a, const Key128& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// In DeviceDescription::free_bytes.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

}  // namespace cuspan
