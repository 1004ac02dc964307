// The images inside a fat binary, decompressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

// Larger than any image in NVIDIA's libraries, and small enough to allocate.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// The decoded image of `entry`. Its bytes are untrusted. Allocates at most `most_bytes`. kInvalid
// for damaged data, kExhausted for an image larger than `most_bytes`, kUnsupported for an unknown
// compression.
Result<std::vector<std::uint8_t>> DecodePayload(const Entry& entry,
                                                std::uint64_t most_bytes = kMaxImageBytes);

// The text of a PTX entry, up to its first NUL. Errors as above.
Result<std::string> DecodePtx(const Entry& entry, std::uint64_t most_bytes = kMaxImageBytes);

}  // namespace cuspan::fatbin
