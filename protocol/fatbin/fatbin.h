// Reads the fat binaries that nvcc embeds in a program: a wrapper (what
// __cudaRegisterFatBinary receives) points to containers; a container is a
// header and a list of entries, each an image for one architecture, mostly
// compressed.
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
// The wrapper is declared in the toolkit's fatbinary_section.h; the rest was
// observed in the output of nvcc 13.0. Nothing here allocates beyond the list it
// returns, keeps state or is bound to a thread; what is returned points into
// the bytes given.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::fatbin {

inline constexpr std::uint32_t kWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kContainerMagic = 0xba55ed50;

// Others may occur; skip them. kObject is our own: see WithObjects.
enum class Kind : std::uint16_t { kPtx = 1, kElf = 2, kLtoIr = 8, kObject = 0x6f62 };

enum class Compression { kNone, kLz4, kZstd, kUnknown };

struct Entry {
  Kind kind;
  std::uint32_t architecture;  // 75 for sm_75.
  std::uint32_t version;       // Of PTX: major × 10 + minor (90 for PTX 9.0).
  std::uint64_t flags;         // As stored; see the constants below.
  Compression compression;
  std::span<const std::uint8_t> payload;  // As stored, without padding where that is known.
  std::uint64_t uncompressed_bytes;       // payload.size() when nothing is compressed.
  std::string_view name;                  // The source file in debug builds, else empty.
  std::string_view options;               // For the compiler of this entry; mostly empty.
};

// Bits of Entry::flags.
inline constexpr std::uint64_t kFlag64Bit = 0x1;
inline constexpr std::uint64_t kFlagDebug = 0x2;
inline constexpr std::uint64_t kFlagLz4 = 0x2000;
inline constexpr std::uint64_t kFlagZstd = 0x8000;
inline constexpr std::uint64_t kFlagEncoded = 0x10000;      // Encoded in a way unknown to us.
inline constexpr std::uint64_t kFlagExactOnly = 0x100000;   // For this architecture only (sm_90a).
inline constexpr std::uint64_t kFlagFamilyOnly = 0x200000;  // For this family only (sm_100f).

struct Container {
  std::uint64_t bytes;  // Header and all entries.
  std::vector<Entry> entries;
};

// What a wrapper points to; the pointers are as found and were not followed.
struct Wrapper {
  std::uint32_t version;
  const void* container;
  std::vector<const void*> objects;  // Version 2: the containers of the objects that were linked.
};

// Whether readable memory at `data` (4 bytes are read) starts as a wrapper or a container does.
bool IsWrapper(const void* data);
bool IsContainer(const void* data);

// Whether so many bytes from an address on can be read.
using CanRead = bool (*)(const void* at, std::uint64_t bytes);
// Memory that is trusted, as that of a registration call.
inline bool Trusted(const void* /*at*/, std::uint64_t /*bytes*/) { return true; }

// Reads a wrapper in this process's own memory (24 bytes, and the array that a
// version 2 points to). Fails with kInvalid or, for a later version, kUnsupported.
Result<Wrapper> ReadWrapper(const void* wrapper, CanRead can_read = Trusted);

// Size in bytes of the container at `container`, header included; 16 bytes are
// read, and the rest can be. Fails with kInvalid when no container starts there.
Result<std::uint64_t> ContainerBytes(const void* container, CanRead can_read = Trusted);

// A container with the entries of `linked` and, for each of `objects` (whole containers), an entry
// of kind kObject that holds it: a linked image has machine code only, the PTX that may have to be
// linked again is in the objects. All were read by ContainerBytes.
std::vector<std::byte> WithObjects(std::span<const std::byte> linked,
                                   std::span<const std::span<const std::byte>> objects);

// Makes of what WithObjects has made the container it was before; the bytes of the objects stay
// behind it. Leaves alone what ReadContainer does not read.
void HideObjects(std::span<std::byte> container);

// Lists the entries of a container, which may be any bytes: every offset and
// length is checked against `bytes`. More bytes may follow the container. Fails
// with kInvalid, naming the offset.
Result<Container> ReadContainer(std::span<const std::uint8_t> bytes);

}  // namespace cuspan::fatbin
