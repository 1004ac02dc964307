// The images inside a fat binary, decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

// More than the largest image seen in NVIDIA's libraries, and little enough to allocate.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// The image of `entry`, whose bytes may be anything. Allocates no more than
// `most_bytes`. Fails with kInvalid for damaged data, kExhausted for an image
// larger than `most_bytes` and kUnsupported for an unknown compression.
Result<std::vector<std::uint8_t>> DecodePayload(const Entry& entry,
                                                std::uint64_t most_bytes = kMaxImageBytes);

// The text of a PTX entry, up to its first NUL. Fails as above.
Result<std::string> DecodePtx(const Entry& entry, std::uint64_t most_bytes = kMaxImageBytes);

// Of decompressed bytes that MayName looks at: some 50 ms of work.
inline constexpr std::uint64_t kMaxSearchedBytes = 64 << 20;

// Whether device code in `image`, which CheckImage has accepted, may use the symbol `name`: false
// only when all of it was looked at (machine code and PTX name what they call) and none does.
// Entries of WithObjects are looked at, too.
bool MayName(std::span<const std::byte> image, std::string_view name);

}  // namespace cuspan::fatbin
