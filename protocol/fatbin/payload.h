// The images inside a fat binary, decompressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

// More than the largest image seen in NVIDIA's libraries, and little enough to allocate.
inline constexpr std::uint64_t kMostImageBytes = std::uint64_t{1} << 30;

// The image of `entry`, whose bytes may be anything. Allocates no more than
// `most_bytes`. Fails with kInvalid for damaged data, kExhausted for an image
// larger than `most_bytes` and kUnsupported for an unknown compression.
Result<std::vector<std::uint8_t>> DecodePayload(const Entry& entry,
                                                std::uint64_t most_bytes = kMostImageBytes);

// The text of a PTX entry, up to its first NUL. Fails as above.
Result<std::string> DecodePtx(const Entry& entry, std::uint64_t most_bytes = kMostImageBytes);

}  // namespace cuspan::fatbin
