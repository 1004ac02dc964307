// Overwriting the entries of functions in a loaded program or library with
// absolute jumps.
//
// All or none: every function is checked first, and when the system refuses
// half way, the original code is mapped again from its file. Pages are made
// writable, then executable again, never both. The caller sees to it that no
// other thread runs in the image meanwhile. No allocation, no C library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"

namespace cuspan::load {

// What a jump takes, in bytes: an indirect jump through the 8 bytes behind it.
inline constexpr std::size_t kJumpSize = 14;

// One entry to be overwritten. Addresses are virtual addresses in the file.
struct Entry {
  std::uint64_t address;
  std::uint64_t size;         // Of the function; bytes of it beyond are padding. 0: not known.
  std::uint64_t limit;        // Where the next function or object begins.
  std::uint64_t destination;  // Where to jump to, in memory.
  std::uint64_t jump_at = 0;  // Where the jump is written; filled in by PatchEntries.
};

// Where in a function the jump goes: `at` bytes behind the first one (an endbr64
// is kept where there is room). It does not fit when `code`, which begins with the function and
// ends where the next one begins, has no room, or more than padding stands behind the function's
// own `size` bytes (0: not known) where the jump would go.
struct Placement {
  bool fits;
  std::size_t at;
};
Placement PlaceJump(Bytes code, std::uint64_t size);

// True when the first `length` of `bytes` are what compilers and linkers put
// between functions. The last instruction may reach further, but not out of `bytes`.
bool IsPadding(Bytes bytes, std::size_t length);

enum class PatchVerdict {
  kDone,
  kNoCode,    // Not in an executable and readable part of the image.
  kTooShort,  // No room for a jump.
  kChanged,   // The memory does not hold what the file does.
  kRefused,   // The system does not let code be changed; nothing was.
  kBroken,    // The same, and the original code could not be put back: the process can not go on.
};

struct PatchReport {
  PatchVerdict verdict = PatchVerdict::kDone;
  std::size_t entry = 0;  // Which entry, for kNoCode, kTooShort and kChanged.
  int error = 0;          // The errno of kRefused and kBroken.
};

// Patches all `count` entries, or none. `image` is the file that was loaded at
// `bias` and `fd` an open descriptor of it.
PatchReport PatchEntries(const ElfImage& image, std::uint64_t bias, int fd, Entry* entries,
                         std::size_t count);

// The same for a function that only returns, and whose first byte is now a debugger's breakpoint,
// which has to stay: the image's own calls of it lead to `destination`, by a jump in the padding
// behind it. `function` is a virtual address in the file.
PatchReport PatchCalls(const ElfImage& image, std::uint64_t bias, std::uint64_t function,
                       std::uint64_t destination);

}  // namespace cuspan::load
