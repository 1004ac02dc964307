// What the flags of EventCreate say beside CUDA's own.
#pragma once

#include <cstdint>

namespace cuspan {

// The client's own event, by which it follows a stream that it was asked about: its records are no
// work of the stream, which counts as ready also while one of them is still pending.
inline constexpr std::uint32_t kProgressEvent = std::uint32_t{1} << 31;

}  // namespace cuspan
