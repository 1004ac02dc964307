#include "interpose/load/patch.h"

#include "interpose/load/syscalls.h"

namespace cuspan::load {
namespace {

constexpr std::uint64_t kPage = 4096;  // Smallest page size of x86-64.
constexpr std::uint8_t kEndbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

// Length of the padding instruction (a no-operation, an int3 or a zero byte) at the start of
// `bytes`. 0 for other instructions.
std::size_t NopLength(Bytes bytes) {
  std::size_t at = 0;
  while (at < bytes.size && (bytes.data[at] == 0x66 || bytes.data[at] == 0x2e)) ++at;
  if (at == bytes.size) return 0;
  const std::uint8_t opcode = bytes.data[at];
  if (opcode == 0x90) return at + 1;
  if (at == 0 && (opcode == 0xcc || opcode == 0x00)) return 1;
  if (opcode != 0x0f || bytes.size - at < 3 || bytes.data[at + 1] != 0x1f) return 0;
  switch (bytes.data[at + 2]) {  // The forms emitted by compilers and assemblers.
    case 0x00:
      return at + 3;
    case 0x40:
      return at + 4;
    case 0x44:
      return at + 5;
    case 0x80:
      return at + 7;
    case 0x84:
      return at + 8;
    default:
      return 0;
  }
}

void WriteJump(std::uint8_t* to, std::uint64_t destination) {
  constexpr std::uint8_t kJump[6] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip)
  __builtin_memcpy(to, kJump, sizeof(kJump));
  __builtin_memcpy(to + sizeof(kJump), &destination, sizeof(destination));
}

std::uint8_t* InMemory(std::uint64_t bias, std::uint64_t address) {
  return reinterpret_cast<std::uint8_t*>(bias + address);
}

// Test for readable pages of this process. Entries come by ascending address, so caching one page
// saves most system calls.
class PageProbe {
 public:
  bool Readable(std::uint64_t from, std::uint64_t length) {
    const std::uint64_t last = (from + length - 1) & ~(kPage - 1);
    for (std::uint64_t page = from & ~(kPage - 1); page <= last; page += kPage) {
      if (page == known_) continue;
      if (!SysReadable(page)) return false;
      known_ = page;
    }
    return true;
  }

 private:
  std::uint64_t known_ = 1;  // No page begins here.
};

PatchVerdict CheckEntry(const ElfImage& image, std::uint64_t bias, PageProbe* probe, Entry* entry) {
  Elf64_Phdr segment;
  if (!image.FindSegment(entry->address, 1, &segment) || (segment.p_flags & PF_X) == 0 ||
      (segment.p_flags & PF_R) == 0) {
    return PatchVerdict::kNoCode;
  }
  if (entry->limit < entry->address) return PatchVerdict::kTooShort;
  std::uint64_t room = segment.p_vaddr + segment.p_filesz - entry->address;
  if (entry->limit - entry->address < room) room = entry->limit - entry->address;
  const Bytes code = image.file().Part(segment.p_offset + (entry->address - segment.p_vaddr), room);
  const Placement placement = PlaceJump(code, entry->size);
  if (!placement.fits) return PatchVerdict::kTooShort;

  const std::size_t used = placement.at + kJumpSize;
  const std::uint8_t* const memory = InMemory(bias, entry->address);
  if (!probe->Readable(bias + entry->address, used)) return PatchVerdict::kChanged;
  for (std::size_t i = 0; i < used; ++i) {
    if (memory[i] != code.data[i]) return PatchVerdict::kChanged;
  }
  entry->jump_at = entry->address + placement.at;
  return PatchVerdict::kDone;
}

int ProtectionOf(const Elf64_Phdr& segment) {
  return ((segment.p_flags & PF_R) != 0 ? PROT_READ : 0) |
         ((segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
         ((segment.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
}

// Pages of one segment with jumps to write.
struct PageRange {
  std::uint64_t begin = 0;  // Virtual addresses in the file.
  std::uint64_t end = 0;    // Equal to begin: empty.
  std::uint64_t size() const { return end - begin; }
};

bool Inside(const Elf64_Phdr& segment, std::uint64_t address) {
  return segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
         address - segment.p_vaddr < segment.p_filesz;
}

PageRange PagesOf(const Elf64_Phdr& segment, const Entry* entries, std::size_t count) {
  PageRange range;
  for (std::size_t i = 0; i < count; ++i) {
    if (!Inside(segment, entries[i].address)) continue;
    const std::uint64_t first = entries[i].jump_at & ~(kPage - 1);
    const std::uint64_t end = ((entries[i].jump_at + kJumpSize - 1) & ~(kPage - 1)) + kPage;
    if (range.size() == 0 || first < range.begin) range.begin = first;
    if (end > range.end) range.end = end;
  }
  return range;
}

// Maps the file's original pages over changed ones. 0 or a negative errno.
long MapAgain(std::uint64_t bias, int fd, const Elf64_Phdr& segment, const PageRange& range) {
  // A segment's address and offset are the same modulo the page size.
  const std::uint64_t offset = segment.p_offset + range.begin - segment.p_vaddr;
  const long mapped = SysMap(InMemory(bias, range.begin), range.size(), ProtectionOf(segment),
                             MAP_PRIVATE | MAP_FIXED, fd, offset);
  return Failed(mapped) ? mapped : 0;
}

// Writes the jumps inside one segment. 0 or a negative errno. *changed is true if the pages must be
// mapped again after a failure.
long PatchSegment(std::uint64_t bias, const Elf64_Phdr& segment, const PageRange& range,
                  const Entry* entries, std::size_t count, bool* changed) {
  *changed = false;
  const int protection = ProtectionOf(segment);
  const bool writable = (protection & PROT_WRITE) != 0;  // Stays writable, as linked.
  if (!writable) {
    const long result = SysProtect(bias + range.begin, range.size(), PROT_READ | PROT_WRITE);
    if (result != 0) {
      SysProtect(bias + range.begin, range.size(), protection);  // Part of it may have succeeded.
      return result;
    }
  }
  *changed = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!Inside(segment, entries[i].address)) continue;
    WriteJump(InMemory(bias, entries[i].jump_at), entries[i].destination);
  }
  return writable ? 0 : SysProtect(bias + range.begin, range.size(), protection);
}

}  // namespace

bool IsPadding(Bytes bytes, std::size_t length) {
  std::size_t at = 0;
  while (at < length) {
    const std::size_t nop = NopLength(bytes.Part(at, bytes.size - at));
    if (nop == 0 || nop > bytes.size - at) return false;
    at += nop;
  }
  return true;
}

Placement PlaceJump(Bytes code, std::uint64_t size) {
  std::size_t at = sizeof(kEndbr64);
  for (std::size_t i = 0; i < sizeof(kEndbr64); ++i) {
    if (i >= code.size || code.data[i] != kEndbr64[i]) at = 0;
  }
  // User space does not enforce endbr64 today. If both do not fit, the jump overwrites it.
  if (code.size < at + kJumpSize) at = 0;
  const std::size_t end = at + kJumpSize;
  if (code.size < end) return {false, 0};
  // After the function's own bytes, only padding may be overwritten.
  if (size != 0 && size < end && !IsPadding(code.Part(size, code.size - size), end - size)) {
    return {false, 0};
  }
  return {true, at};
}

PatchReport PatchEntries(const ElfImage& image, std::uint64_t bias, int fd, Entry* entries,
                         std::size_t count) {
  PageProbe probe;
  for (std::size_t i = 0; i < count; ++i) {
    const PatchVerdict verdict = CheckEntry(image, bias, &probe, &entries[i]);
    if (verdict != PatchVerdict::kDone) return {verdict, i, 0};
  }
  for (std::size_t s = 0; s < image.segment_count(); ++s) {
    const PageRange range = PagesOf(image.Segment(s), entries, count);
    if (range.size() == 0) continue;
    bool changed = false;
    const long result = PatchSegment(bias, image.Segment(s), range, entries, count, &changed);
    if (result == 0) continue;
    // Refused: undo the changes in this segment and all earlier ones.
    PatchReport report{PatchVerdict::kRefused, 0, static_cast<int>(-result)};
    for (std::size_t undone = 0; undone < s + (changed ? 1 : 0); ++undone) {
      const PageRange pages = PagesOf(image.Segment(undone), entries, count);
      if (pages.size() == 0) continue;
      if (MapAgain(bias, fd, image.Segment(undone), pages) != 0) {
        report.verdict = PatchVerdict::kBroken;
      }
    }
    return report;
  }
  return {};
}

PatchReport PatchCalls(const ElfImage& image, std::uint64_t bias, std::uint64_t function,
                       std::uint64_t destination) {
  constexpr std::uint8_t kReturn = 0xc3;
  constexpr std::uint8_t kBreakpoint = 0xcc;
  constexpr std::uint8_t kCall = 0xe8;
  constexpr std::size_t kCallSize = 5;
  constexpr std::size_t kSlot = 16;
  Elf64_Phdr segment;
  if (!image.FindSegment(function, kSlot, &segment) || (segment.p_flags & PF_X) == 0 ||
      !image.file().Holds(segment.p_offset, segment.p_filesz))
    return {PatchVerdict::kNoCode, 0, 0};
  const Bytes code = image.file().Part(segment.p_offset, segment.p_filesz);
  std::uint8_t* const memory = InMemory(bias, segment.p_vaddr);
  const std::size_t at = function - segment.p_vaddr;
  if (code.data[at] != kReturn || !IsPadding(code.Part(at + 1, kSlot - 1), kJumpSize))
    return {PatchVerdict::kTooShort, 0, 0};
  if (memory[at] != kBreakpoint) return {PatchVerdict::kChanged, 0, 0};
  for (std::size_t i = 1; i < kSlot; ++i)
    if (memory[at + i] != code.data[at + i]) return {PatchVerdict::kChanged, 0, 0};
  // Calls visit(distance) for each call of the function in the file.
  const auto visit_calls = [&](auto visit) {
    for (std::size_t call = 0; call + kCallSize <= code.size; ++call) {
      std::int32_t distance;
      __builtin_memcpy(&distance, code.data + call + 1, sizeof distance);
      const auto target = static_cast<std::int64_t>(call + kCallSize) + distance;
      if (code.data[call] == kCall && target == static_cast<std::int64_t>(at) &&
          memory[call] == kCall)
        visit(memory + call + 1, distance);
    }
  };
  std::size_t calls = 0;
  visit_calls([&](std::uint8_t*, std::int32_t) { ++calls; });
  if (calls == 0) return {PatchVerdict::kNoCode, 0, 0};
  const std::uint64_t begin = (bias + segment.p_vaddr) & ~(kPage - 1);
  const std::uint64_t end = (bias + segment.p_vaddr + segment.p_filesz + kPage - 1) & ~(kPage - 1);
  const int protection = ProtectionOf(segment);
  if (const long result = SysProtect(begin, end - begin, PROT_READ | PROT_WRITE); result != 0) {
    SysProtect(begin, end - begin, protection);
    return {PatchVerdict::kRefused, 0, static_cast<int>(-result)};
  }
  WriteJump(memory + at + 1, destination);
  visit_calls([](std::uint8_t* where, std::int32_t distance) {
    ++distance;
    __builtin_memcpy(where, &distance, sizeof distance);
  });
  const long result = SysProtect(begin, end - begin, protection);
  if (result == 0) return {};
  return {PatchVerdict::kBroken, 0, static_cast<int>(-result)};
}

}  // namespace cuspan::load
