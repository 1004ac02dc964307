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

// Larger than any image in NVIDIA's libraries, and small enough to allocate.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// The decoded image of `entry`. Its bytes are untrusted. Allocates at most `most_bytes`. kInvalid
// for damaged data, kExhausted for an image larger than `most_bytes`, kUnsupported for an unknown
// compression.
Result<std::vector<std::uint8_t>> DecodePayload(const Entry& entry,
                                                std::uint64_t most_bytes = kMaxImageBytes);

// The text of a PTX entry, up to its first NUL. Errors as above.
Result<std::string> DecodePtx(const Entry& entry, std::uint64_t most_bytes = kMaxImageBytes);

// Maximum number of decompressed bytes searched by MayName: about 50 ms of work.
inline constexpr std::uint64_t kMaxSearchedBytes = 64 << 20;

// True if device code in `image` (accepted by CheckImage) may use the symbol `name`. False only if
// all of it was searched without a match: machine code and PTX contain the names of called
// functions. Entries of WithObjects are searched, too.
bool MayName(std::span<const std::byte> image, std::string_view name);

}  // namespace cuspan::fatbin
