#include "interpose/load/elf_image.h"

#include <emmintrin.h>

namespace cuspan::load {
namespace {

// Length of the string at `text`.
std::size_t Length(const char* text) {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

// String table of the file. Empty unless its last byte is zero, so every string in it is
// terminated.
Bytes StringTable(Bytes file, const Elf64_Shdr& section) {
  if (section.sh_type != SHT_STRTAB || section.sh_size == 0) return {};
  if (!file.Holds(section.sh_offset, section.sh_size)) return {};
  const Bytes names = file.Part(section.sh_offset, section.sh_size);
  return names.data[names.size - 1] == 0 ? names : Bytes{};
}

const char* StringAt(Bytes names, std::uint64_t offset) {
  return offset < names.size ? reinterpret_cast<const char*>(names.data + offset) : "";
}

bool MatchesAt(const std::uint8_t* bytes, const char* needle, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    if (bytes[i] != static_cast<std::uint8_t>(needle[i])) return false;
  }
  return true;
}

}  // namespace

int CompareNames(const char* a, const char* b) {
  while (*a != 0 && *a == *b) {
    ++a;
    ++b;
  }
  return static_cast<int>(static_cast<unsigned char>(*a)) -
         static_cast<int>(static_cast<unsigned char>(*b));
}

bool StartsWith(const char* text, const char* prefix) {
  while (*prefix != 0) {
    if (*text++ != *prefix++) return false;
  }
  return true;
}

std::size_t Find(Bytes haystack, const char* needle, std::size_t from) {
  const std::size_t length = Length(needle);
  if (length == 0 || haystack.size < length) return kNowhere;
  const std::size_t last = haystack.size - length;
  // Compares the needle's first and last byte at 16 positions at once.
  constexpr std::size_t kBlock = sizeof(__m128i);
  const __m128i first = _mm_set1_epi8(needle[0]);
  const __m128i final = _mm_set1_epi8(needle[length - 1]);
  std::size_t at = from;
  for (; at <= last && last - at >= kBlock - 1; at += kBlock) {
    const auto* const block = reinterpret_cast<const __m128i*>(haystack.data + at);
    const auto* const ends = reinterpret_cast<const __m128i*>(haystack.data + at + length - 1);
    const __m128i both = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(block), first),
                                       _mm_cmpeq_epi8(_mm_loadu_si128(ends), final));
    for (auto found = static_cast<unsigned>(_mm_movemask_epi8(both)); found != 0;
         found &= found - 1) {
      const std::size_t place = at + static_cast<unsigned>(__builtin_ctz(found));
      if (MatchesAt(haystack.data + place, needle, length)) return place;
    }
  }
  for (; at <= last; ++at) {
    if (MatchesAt(haystack.data + at, needle, length)) return at;
  }
  return kNowhere;
}

Elf64_Sym SymbolTable::Get(std::size_t index) const {
  Elf64_Sym symbol;
  __builtin_memcpy(&symbol, entries.data + index * sizeof(symbol), sizeof(symbol));
  return symbol;
}

const char* SymbolTable::Name(const Elf64_Sym& symbol) const {
  return StringAt(names, symbol.st_name);
}

bool SymbolTable::Defines(const char* name) const {
  for (std::size_t i = 0; i < count(); ++i) {
    const Elf64_Sym symbol = Get(i);
    if (symbol.st_shndx != SHN_UNDEF && CompareNames(Name(symbol), name) == 0) return true;
  }
  return false;
}

bool SymbolTable::Mentions(const char* name) const {
  for (std::size_t i = 0; i < count(); ++i) {
    if (CompareNames(Name(Get(i)), name) == 0) return true;
  }
  return false;
}

ElfImage::Verdict ElfImage::Parse(Bytes file) {
  *this = ElfImage();
  if (!file.Holds(0, SELFMAG) || !MatchesAt(file.data, ELFMAG, SELFMAG)) return Verdict::kNotElf;
  if (!file.Holds(0, EI_NIDENT)) return Verdict::kMalformed;
  if (file.data[EI_CLASS] != ELFCLASS64 || file.data[EI_DATA] != ELFDATA2LSB) {
    return Verdict::kForeign;
  }
  if (!file.Read(0, &header_)) return Verdict::kMalformed;
  if (header_.e_machine != EM_X86_64) return Verdict::kForeign;
  if (header_.e_type != ET_EXEC && header_.e_type != ET_DYN) return Verdict::kForeign;

  if (header_.e_phnum == 0 || header_.e_phentsize != sizeof(Elf64_Phdr)) {
    return Verdict::kMalformed;
  }
  const std::uint64_t segment_bytes = header_.e_phnum * sizeof(Elf64_Phdr);
  if (!file.Holds(header_.e_phoff, segment_bytes)) return Verdict::kMalformed;
  segments_ = file.Part(header_.e_phoff, segment_bytes);
  file_ = file;
  if (header_.e_shoff == 0) return Verdict::kUsable;  // No section headers: nothing to find.

  // Section 0 holds counts too large for the header's 16 bits.
  Elf64_Shdr zeroth;
  if (header_.e_shentsize != sizeof(Elf64_Shdr) || !file.Read(header_.e_shoff, &zeroth)) {
    return Verdict::kMalformed;
  }
  const std::uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : zeroth.sh_size;
  if (count > file.size / sizeof(Elf64_Shdr)) return Verdict::kMalformed;
  if (!file.Holds(header_.e_shoff, count * sizeof(Elf64_Shdr))) return Verdict::kMalformed;
  sections_ = file.Part(header_.e_shoff, count * sizeof(Elf64_Shdr));

  const std::uint64_t names =
      header_.e_shstrndx == SHN_XINDEX ? zeroth.sh_link : header_.e_shstrndx;
  Elf64_Shdr section;
  if (names != SHN_UNDEF && Section(names, &section)) {
    section_names_ = StringTable(file, section);
  }
  return Verdict::kUsable;
}

Elf64_Phdr ElfImage::Segment(std::size_t index) const {
  Elf64_Phdr segment;
  __builtin_memcpy(&segment, segments_.data + index * sizeof(segment), sizeof(segment));
  return segment;
}

bool ElfImage::FindSegment(std::uint64_t address, std::uint64_t length, Elf64_Phdr* out) const {
  for (std::size_t i = 0; i < segment_count(); ++i) {
    const Elf64_Phdr segment = Segment(i);
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t inside = address - segment.p_vaddr;
    if (inside > segment.p_filesz || length > segment.p_filesz - inside) continue;
    if (!file_.Holds(segment.p_offset, segment.p_filesz)) continue;
    *out = segment;
    return true;
  }
  return false;
}

Bytes ElfImage::BytesFrom(std::uint64_t address) const {
  Elf64_Phdr segment;
  if (!FindSegment(address, 1, &segment)) return {};
  const std::uint64_t inside = address - segment.p_vaddr;
  return file_.Part(segment.p_offset + inside, segment.p_filesz - inside);
}

bool ElfImage::DynamicAddress(std::uint64_t* out) const {
  for (std::size_t i = 0; i < segment_count(); ++i) {
    const Elf64_Phdr segment = Segment(i);
    if (segment.p_type != PT_DYNAMIC) continue;
    *out = segment.p_vaddr;
    return true;
  }
  return false;
}

bool ElfImage::DynamicValue(std::int64_t tag, std::uint64_t* out) const {
  std::uint64_t address = 0;
  if (!DynamicAddress(&address)) return false;
  const Bytes entries = BytesFrom(address);
  Elf64_Dyn entry;
  for (std::uint64_t at = 0; entries.Read(at, &entry) && entry.d_tag != DT_NULL;
       at += sizeof(entry)) {
    if (entry.d_tag != tag) continue;
    *out = entry.d_un.d_val;
    return true;
  }
  return false;
}

const char* ElfImage::SharedName() const {
  std::uint64_t name = 0;
  std::uint64_t strings = 0;
  std::uint64_t size = 0;
  if (!DynamicValue(DT_SONAME, &name) || !DynamicValue(DT_STRTAB, &strings) ||
      !DynamicValue(DT_STRSZ, &size) || size == 0) {
    return "";
  }
  const Bytes names = BytesFrom(strings);
  if (size > names.size || names.data[size - 1] != 0) return "";
  return StringAt(names.Part(0, size), name);
}

bool ElfImage::Section(std::size_t index, Elf64_Shdr* out) const {
  return index < section_count() && sections_.Read(index * sizeof(Elf64_Shdr), out);
}

const char* ElfImage::SectionName(const Elf64_Shdr& section) const {
  return StringAt(section_names_, section.sh_name);
}

bool ElfImage::HasSection(const char* name) const {
  Elf64_Shdr section;
  for (std::size_t i = 0; Section(i, &section); ++i) {
    if (CompareNames(SectionName(section), name) == 0) return true;
  }
  return false;
}

SymbolTable ElfImage::Symbols(unsigned section_type) const {
  Elf64_Shdr section;
  for (std::size_t i = 0; Section(i, &section); ++i) {
    if (section.sh_type != section_type) continue;
    Elf64_Shdr strings;
    if (section.sh_entsize != sizeof(Elf64_Sym) || !Section(section.sh_link, &strings) ||
        !file_.Holds(section.sh_offset, section.sh_size)) {
      return {};
    }
    const Bytes names = StringTable(file_, strings);
    if (names.size == 0) return {};
    return {file_.Part(section.sh_offset, section.sh_size), names};
  }
  return {};
}

}  // namespace cuspan::load
