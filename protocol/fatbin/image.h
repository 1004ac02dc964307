// What CUDA takes as a module, by its first bytes: a fat binary, an ELF image
// (cubin) or PTX text. The driver is told no length: what an image says of its
// own size is checked before it reads one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

// More than any image has; a proxy takes no more. The largest seen is about 200 MiB.
inline constexpr std::uint64_t kMaxModuleBytes = std::uint64_t{2} << 30;

// kText is all that is nothing else; only a compiler can tell whether it is PTX.
enum class ImageKind { kWrapper, kContainer, kElf, kText };

// Reads no byte behind a NUL, and none behind `readable`.
ImageKind KindOf(const void* image, std::uint64_t readable = kMaxModuleBytes);

// Size in bytes of the image at `image`, by what it says of itself: of a
// container its header and entries, of an ELF image all that its tables name, of
// a text its NUL too. At most `readable` bytes are looked at. kInvalid when it
// does not lie within them, and for a wrapper, which has no size.
Result<std::uint64_t> ImageBytes(const void* image, std::uint64_t readable = kMaxModuleBytes);

// The same for an image in this process's memory, which may be damaged or end anywhere. All bytes
// of the result can be read.
Result<std::uint64_t> ImageBytes(const void* image, CanRead can_read);
// The same as KindOf there.
ImageKind KindOf(const void* image, CanRead can_read);

// Whether the driver will stay inside `image` when it finds out what it is.
// kInvalid says what is wrong.
Status CheckImage(std::span<const std::byte> image);

}  // namespace cuspan::fatbin
