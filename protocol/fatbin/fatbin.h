// Reads the fat binaries embedded by nvcc in a program. A wrapper (the argument of
// __cudaRegisterFatBinary) points to containers. A container is a header and a list of entries.
// Each entry is an image for one architecture, mostly compressed.
//
//   wrapper     u32 magic 0x466243b1 | u32 version | u64 container | u64 others
//               version 1: one container. Version 2 (relocatable code): `container`
//               is the linked image, `others` a null-terminated array of the
//               objects' containers.
//   container   u32 magic 0xba55ed50 | u16 version 1 | u16 header bytes | u64 bytes of all entries
//   entry       u16 kind | u16 | u32 header bytes | u64 payload bytes, padding included |
//               u32 compressed bytes (0: stored) | u32 options at | u16 minor | u16 major |
//               u32 architecture | u32 name at | u32 name bytes | u64 flags | u64 |
//               u64 uncompressed bytes (0: stored)
//   options     u32 string at | u32 string bytes          (offsets count from the entry's start)
//
// The wrapper is declared in the toolkit's fatbinary_section.h. The rest was observed in the output
// of nvcc 13.0. Functions allocate only the list they return. They keep no state; threads: any.
// Results point into the given bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::fatbin {

inline constexpr std::uint32_t kWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kContainerMagic = 0xba55ed50;

// Skip other values. kObject is cuspan's own: see WithObjects.
enum class Kind : std::uint16_t { kPtx = 1, kElf = 2, kLtoIr = 8, kObject = 0x6f62 };

enum class Compression { kNone, kLz4, kZstd, kUnknown };

struct Entry {
  Kind kind;
  std::uint32_t architecture;  // 75 for sm_75.
  std::uint32_t version;       // PTX version: major × 10 + minor (90 for PTX 9.0).
  std::uint64_t flags;         // Bits as stored; see the constants below.
  Compression compression;
  std::span<const std::uint8_t> payload;  // Stored bytes, without padding if its size is known.
  std::uint64_t uncompressed_bytes;       // payload.size() if not compressed.
  std::string_view name;                  // The source file in debug builds, else empty.
  std::string_view options;               // Compiler options of this entry; usually empty.
};

// Bits of Entry::flags.
inline constexpr std::uint64_t kFlag64Bit = 0x1;
inline constexpr std::uint64_t kFlagDebug = 0x2;
inline constexpr std::uint64_t kFlagLz4 = 0x2000;
inline constexpr std::uint64_t kFlagZstd = 0x8000;
inline constexpr std::uint64_t kFlagEncoded = 0x10000;      // Unknown encoding.
inline constexpr std::uint64_t kFlagExactOnly = 0x100000;   // Only for this architecture (sm_90a).
inline constexpr std::uint64_t kFlagFamilyOnly = 0x200000;  // Only for this family (sm_100f).

struct Container {
  std::uint64_t bytes;  // Header and all entries.
  std::vector<Entry> entries;
};

// The contents of a wrapper; the pointers are not dereferenced.
struct Wrapper {
  std::uint32_t version;
  const void* container;
  std::vector<const void*> objects;  // Version 2: the containers of the linked objects.
};

// True if `data` starts with a wrapper's or a container's magic. Reads 4 bytes.
bool IsWrapper(const void* data);
bool IsContainer(const void* data);

// True if `bytes` from an address on are readable.
using CanRead = bool (*)(const void* at, std::uint64_t bytes);
// Used for trusted memory, for example the arguments of a registration call.
inline bool Trusted(const void* /*at*/, std::uint64_t /*bytes*/) { return true; }

// Reads a wrapper in this process's memory: 24 bytes, and the array of a version 2 wrapper.
// kInvalid if damaged, kUnsupported for later versions.
Result<Wrapper> ReadWrapper(const void* wrapper, CanRead can_read = Trusted);

// Size in bytes of the container at `container`, including the header. Reads 16 bytes, and checks
// that the rest is readable. kInvalid if it is not a container.
Result<std::uint64_t> ContainerBytes(const void* container, CanRead can_read = Trusted);

// Builds a container from the entries of `linked`, and one entry of kind kObject for each of
// `objects` (whole containers). A linked image has machine code only; PTX that may have to be
// linked again is in the objects. All inputs were checked by ContainerBytes.
std::vector<std::byte> WithObjects(std::span<const std::byte> linked,
                                   std::span<const std::span<const std::byte>> objects);

// Reverses WithObjects: restores the original container's size. The objects' bytes stay behind it.
// No effect if ReadContainer fails.
void HideObjects(std::span<std::byte> container);

// Lists the entries of a container. The bytes are untrusted: every offset and length is checked
// against `bytes`. More bytes may follow the container. kInvalid names the offset.
Result<Container> ReadContainer(std::span<const std::uint8_t> bytes);

}  // namespace cuspan::fatbin
