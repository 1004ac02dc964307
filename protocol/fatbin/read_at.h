// Reading structures of untrusted images.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace cuspan::fatbin {

// The structure at `offset`; nothing if it is not completely inside `bytes`.
template <typename T>
std::optional<T> ReadAt(std::span<const std::uint8_t> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace cuspan::fatbin
