// Overwrites the entries of functions in a loaded program or library with absolute jumps.
//
// All or none: every function is checked first. If the kernel refuses half-way, the original code
// is mapped again from the file. Pages are made writable, then executable again, never both. The
// caller ensures that no other thread runs in the image meanwhile. No allocation, no C library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"

namespace cuspan::load {

// Bytes of a jump: an indirect jump, followed by its 8-byte address.
inline constexpr std::size_t kJumpSize = 14;

// One entry to be overwritten. Addresses are virtual addresses in the file.
struct Entry {
  std::uint64_t address;
  std::uint64_t size;         // Function's own bytes; padding follows. 0: unknown.
  std::uint64_t limit;        // Start of the next function or object.
  std::uint64_t destination;  // Target of the jump, in memory.
  std::uint64_t jump_at = 0;  // Address of the jump; set by PatchEntries.
};

// Position of the jump in a function: `at` bytes after its start (an endbr64 is kept if there is
// room). `code` begins with the function and ends at the next one. `size` is the function's own
// size, 0 if unknown. The jump does not fit if `code` is too short, or if it would overwrite more
// than padding after `size` bytes.
struct Placement {
  bool fits;
  std::size_t at;
};
Placement PlaceJump(Bytes code, std::uint64_t size);

// True if the first `length` bytes are padding by compilers and linkers between functions. The last
// instruction may be longer, but must end inside `bytes`.
bool IsPadding(Bytes bytes, std::size_t length);

enum class PatchVerdict {
  kDone,
  kNoCode,    // Not in an executable and readable part of the image.
  kTooShort,  // No room for a jump.
  kChanged,   // The memory differs from the file.
  kRefused,   // The kernel forbids changes of code; nothing was changed.
  kBroken,    // Same, but restoring the code failed: the process cannot continue.
};

struct PatchReport {
  PatchVerdict verdict = PatchVerdict::kDone;
  std::size_t entry = 0;  // Index, for kNoCode, kTooShort and kChanged.
  int error = 0;          // errno, for kRefused and kBroken.
};

// Patches all `count` entries, or none. `image` is the file loaded at `bias`; `fd` is an open
// descriptor of it.
PatchReport PatchEntries(const ElfImage& image, std::uint64_t bias, int fd, Entry* entries,
                         std::size_t count);

// Same, for a function consisting of a return only, with a debugger's breakpoint in its first byte.
// The breakpoint stays: calls inside the image are redirected to a jump to `destination`, placed in
// the padding after the return. `function`: virtual address in the file.
PatchReport PatchCalls(const ElfImage& image, std::uint64_t bias, std::uint64_t function,
                       std::uint64_t destination);

}  // namespace cuspan::load
