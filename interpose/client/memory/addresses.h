// Addresses as numbers and as pointers, and the granularity of the driver's mappings.
#pragma once

#include <cstdint>

namespace cuspan {

inline std::uint64_t AddressOf(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
inline void* PointerTo(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Smallest mapping of the driver.
inline constexpr std::uint64_t kDriverGranularity = 2 << 20;
constexpr std::uint64_t RoundUpToGranularity(std::uint64_t bytes) {
  return (bytes + kDriverGranularity - 1) / kDriverGranularity * kDriverGranularity;
}

}  // namespace cuspan
