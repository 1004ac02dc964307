// Module images, distinguished by their first bytes: a fat binary, an ELF image (cubin) or PTX
// text. CUDA's functions have no length argument. The image's own sizes are checked before the
// driver reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

// Maximum size of a module; the proxy enforces it. The largest observed image has about 200 MiB.
inline constexpr std::uint64_t kMaxModuleBytes = std::uint64_t{2} << 30;

// kText is everything else; only a compiler can check whether it is PTX.
enum class ImageKind { kWrapper, kContainer, kElf, kText };

// Reads no byte after a NUL, and none beyond `readable`.
ImageKind KindOf(const void* image, std::uint64_t readable = kMaxModuleBytes);

// Size in bytes of the image at `image`, from its own headers. Container: its header and entries.
// ELF image: the end of its last section or segment. Text: including its NUL. Reads at most
// `readable` bytes. kInvalid if the image exceeds them, and for a wrapper, because it has no size.
Result<std::uint64_t> ImageBytes(const void* image, std::uint64_t readable = kMaxModuleBytes);

// The same for an image in this process's memory, possibly damaged or partly unmapped. All bytes of
// the result are readable.
Result<std::uint64_t> ImageBytes(const void* image, CanRead can_read);
// The same as KindOf for unchecked memory.
ImageKind KindOf(const void* image, CanRead can_read);

// Checks that the driver stays inside `image` when it parses it. kInvalid names the defect.
Status CheckImage(std::span<const std::byte> image);

}  // namespace cuspan::fatbin
