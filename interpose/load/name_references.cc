#include "interpose/load/name_references.h"

#include <emmintrin.h>

#include <initializer_list>

#include "interpose/load/targets.h"

namespace cuspan::load {
namespace {

// Present in every release of the CUDA runtime, and long enough for a fast search.
constexpr const char* kTypicalName = "cudaDeviceGetStreamPriorityRange";
constexpr const char* kPrefix = "cuda";
constexpr std::size_t kReserved = 2;  // "__" before the prefix of some names.

// An address with the name of an export, or with a pointer to the name.
struct Position {
  std::uint64_t address;
  std::uint32_t export_index;
};

class Places {
 public:
  void Clear() {
    count_ = 0;
    for (std::uint64_t& bits : seen_) bits = 0;
  }
  bool Add(std::uint64_t address, std::size_t export_index) {
    if (count_ == kCapacity) return false;
    items_[count_++] = {address, static_cast<std::uint32_t>(export_index)};
    seen_[Word(address)] |= Bit(address);
    return true;
  }
  // Must be called after the last Add.
  void Order() {
    Sort(items_, count_,
         [](const Position& a, const Position& b) { return a.address < b.address; });
  }
  // Export at this address, or ExportTable::kNone. Called for millions of addresses.
  std::size_t At(std::uint64_t address) const {
    if ((seen_[Word(address)] & Bit(address)) == 0) return ExportTable::kNone;
    std::size_t low = 0;
    std::size_t high = count_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (items_[middle].address < address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool found = low < count_ && items_[low].address == address;
    return found ? items_[low].export_index : ExportTable::kNone;
  }

 private:
  static constexpr std::size_t kCapacity = 8192;
  static constexpr std::size_t kWords = 1024;  // 64 bits each: fits the L1 cache.

  static std::size_t Word(std::uint64_t address) { return address / 64 % kWords; }
  static std::uint64_t Bit(std::uint64_t address) { return std::uint64_t{1} << (address % 64); }

  Position items_[kCapacity] = {};
  std::size_t count_ = 0;
  std::uint64_t seen_[kWords] = {};  // Filter: one bit for the low bits of each address.
};

// Working memory, too large for the stack of a small thread.
constinit Places names;
constinit Places pointers;

// Calls visit(bytes, address) for the parts of the image with code, or those with constants. Stops
// and returns false if visit does. Without section headers, whole segments are visited.
template <typename Visit>
bool VisitParts(const ElfImage& image, bool code, Visit visit) {
  Elf64_Shdr section;
  for (std::size_t i = 0; image.Section(i, &section); ++i) {
    if (section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_ALLOC) == 0) continue;
    const char* const name = image.SectionName(section);
    const bool wanted = code ? (section.sh_flags & SHF_EXECINSTR) != 0
                             : StartsWith(name, ".rodata") || StartsWith(name, ".lrodata");
    if (!wanted || !image.file().Holds(section.sh_offset, section.sh_size)) continue;
    if (!visit(image.file().Part(section.sh_offset, section.sh_size), section.sh_addr))
      return false;
  }
  if (image.section_count() != 0) return true;
  for (std::size_t i = 0; i < image.segment_count(); ++i) {
    const Elf64_Phdr segment = image.Segment(i);
    if (segment.p_type != PT_LOAD || (code && (segment.p_flags & PF_X) == 0)) continue;
    if (!image.file().Holds(segment.p_offset, segment.p_filesz)) continue;
    if (!visit(image.file().Part(segment.p_offset, segment.p_filesz), segment.p_vaddr))
      return false;
  }
  return true;
}

bool HoldsTypicalName(const ElfImage& image) {
  return !VisitParts(image, false,
                     [](Bytes bytes, std::uint64_t) { return !Contains(bytes, kTypicalName); });
}

// Adds the names of exports in `bytes`. Linkers may store a string as the end of a longer one.
bool AddNames(Bytes bytes, std::uint64_t address, const ExportTable& exports) {
  std::size_t text_end = 0;  // End of the current string.
  for (std::size_t at = Find(bytes, kPrefix); at != kNowhere; at = Find(bytes, kPrefix, at + 1)) {
    if (text_end <= at) text_end = at;
    while (text_end < bytes.size && bytes.data[text_end] != 0) ++text_end;
    if (text_end == bytes.size) break;  // The last string is not terminated.
    for (const std::size_t before : {std::size_t{0}, kReserved}) {
      if (at < before) continue;
      const auto* const text = reinterpret_cast<const char*>(bytes.data + at - before);
      const std::size_t index = exports.Find(text);
      if (index != ExportTable::kNone && !names.Add(address + at - before, index)) return false;
    }
  }
  return true;
}

// Adds the addresses to be filled with pointers to names by the loader.
bool AddRelocatedPointers(const ElfImage& image) {
  std::uint64_t table = 0;
  std::uint64_t size = 0;
  if (!image.DynamicValue(DT_RELA, &table) || !image.DynamicValue(DT_RELASZ, &size)) return true;
  const Bytes rows = image.BytesFrom(table);
  Elf64_Rela row;
  for (std::uint64_t at = 0; at < size && rows.Read(at, &row); at += sizeof(row)) {
    if (ELF64_R_TYPE(row.r_info) != R_X86_64_RELATIVE) continue;
    const std::size_t index = names.At(static_cast<std::uint64_t>(row.r_addend));
    if (index != ExportTable::kNone && !pointers.Add(row.r_offset, index)) return false;
  }
  return true;
}

// Adds the addresses with pointers to names already in the file. These exist in programs with a
// fixed address, and with packed relocations (DT_RELR).
bool AddStoredPointers(const ElfImage& image) {
  constexpr std::int64_t kPackedRelocations = 36;  // DT_RELR, missing in older headers.
  std::uint64_t packed = 0;
  if (image.type() != ET_EXEC && !image.DynamicValue(kPackedRelocations, &packed)) return true;
  for (std::size_t i = 0; i < image.segment_count(); ++i) {
    const Elf64_Phdr segment = image.Segment(i);
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const Bytes bytes = image.BytesFrom(segment.p_vaddr);
    std::uint64_t address = 0;
    std::uint64_t at = -segment.p_vaddr % sizeof(address);
    for (; bytes.Read(at, &address); at += sizeof(address)) {
      const std::size_t index = names.At(address);
      if (index != ExportTable::kNone && !pointers.Add(segment.p_vaddr + at, index)) return false;
    }
  }
  return true;
}

// Export referred to by the instruction with its ModRM byte at `at`, or kNone. `address` is the
// address of this byte. At least 2 bytes precede it, and kDisplacement bytes follow.
constexpr std::size_t kDisplacement = 4;
std::size_t ReferredTo(const std::uint8_t* at, std::uint64_t address) {
  std::int32_t displacement;
  __builtin_memcpy(&displacement, at + 1, sizeof(displacement));
  const std::uint64_t target =
      address + 1 + kDisplacement + static_cast<std::uint64_t>(std::int64_t{displacement});
  constexpr std::uint8_t kWide = 0x48;  // REX.W, with or without REX.R.
  const bool wide = (at[-2] & 0xfb) == kWide;
  switch (at[-1]) {
    case 0x8d:  // lea
      return wide ? names.At(target) : ExportTable::kNone;
    case 0x8b:  // mov
      return wide ? pointers.At(target) : ExportTable::kNone;
    case 0x7e:  // movq to a vector register
    case 0x12:  // movlps
    case 0x16:  // movhps
      return at[-2] == 0x0f ? pointers.At(target) : ExportTable::kNone;
    default:
      return ExportTable::kNone;
  }
}

// Bit mask of the 16 bytes at `at`: set for ModRM bytes with an address relative to the next
// instruction, in instructions known to ReferredTo.
unsigned RelativeModRms(const std::uint8_t* at) {
  const auto load = [](const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const auto is = [](__m128i bytes, unsigned mask, unsigned value) {
    return _mm_cmpeq_epi8(_mm_and_si128(bytes, _mm_set1_epi8(static_cast<char>(mask))),
                          _mm_set1_epi8(static_cast<char>(value)));
  };
  const __m128i before = load(at - 2);
  const __m128i wide = _mm_and_si128(is(before, 0xfb, 0x48), is(load(at - 1), 0xf9, 0x89));
  const __m128i known = _mm_or_si128(wide, is(before, 0xff, 0x0f));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(is(load(at), 0xc7, 0x05), known)));
}

// Calls visit(at) for each byte of `code` possibly being a ModRM byte of this kind.
template <typename Visit>
bool VisitRelative(Bytes code, Visit visit) {
  constexpr std::size_t kBefore = 2;
  constexpr std::size_t kBlock = sizeof(__m128i);
  std::size_t at = kBefore;
  for (; code.Holds(at, kBlock + kDisplacement); at += kBlock) {
    for (unsigned found = RelativeModRms(code.data + at); found != 0; found &= found - 1) {
      if (!visit(at + static_cast<unsigned>(__builtin_ctz(found)))) return false;
    }
  }
  for (; code.Holds(at, 1 + kDisplacement); ++at) {
    if ((code.data[at] & 0xc7) == 0x05 && !visit(at)) return false;
  }
  return true;
}

// Sorts the list and removes duplicates.
void Tidy(NameReferences* list) {
  Sort(list->items, list->count, [](const NameReference& a, const NameReference& b) {
    return a.function != b.function ? a.function < b.function : a.export_index < b.export_index;
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list->count; ++i) {
    const NameReference& item = list->items[i];
    if (kept != 0 && list->items[kept - 1].function == item.function &&
        list->items[kept - 1].export_index == item.export_index) {
      continue;
    }
    list->items[kept++] = item;
  }
  list->count = kept;
}

}  // namespace

bool FindNameReferences(const ElfImage& image, const ExportTable& exports,
                        const UnwindTable& functions, NameReferences* out) {
  out->count = 0;
  names.Clear();
  pointers.Clear();
  if (!HoldsTypicalName(image)) return false;
  const bool have_names = VisitParts(image, false, [&](Bytes bytes, std::uint64_t address) {
    return AddNames(bytes, address, exports);
  });
  names.Order();
  if (!have_names || !AddRelocatedPointers(image) || !AddStoredPointers(image)) return false;
  pointers.Order();
  const bool done = VisitParts(image, true, [&](Bytes code, std::uint64_t address) {
    return VisitRelative(code, [&](std::size_t at) {
      const std::size_t index = ReferredTo(code.data + at, address + at);
      if (index == ExportTable::kNone) return true;
      const std::size_t function = functions.LastUpTo(address + at);
      if (function == kNowhere) return true;
      if (out->count == NameReferences::kCapacity) return false;
      out->items[out->count++] = {static_cast<std::uint32_t>(function),
                                  static_cast<std::uint32_t>(index)};
      return true;
    });
  });
  if (!done) out->count = 0;
  Tidy(out);
  return done;
}

}  // namespace cuspan::load
