#include "interpose/load/elf_image.h"

namespace cuspan::load {
namespace {

// The length of the string at `text`.
std::size_t Length(const char* text) {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

// A string table from the file; empty unless it ends with a zero byte, so that
// every offset inside it starts a terminated string.
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

bool Contains(Bytes haystack, const char* needle) {
  // Horspool's search: the byte under the needle's end says how far to move on.
  const std::size_t length = Length(needle);
  if (length == 0 || length > 255 || haystack.size < length) return false;
  std::uint8_t skip[256];
  for (std::uint8_t& distance : skip) distance = static_cast<std::uint8_t>(length);
  for (std::size_t i = 0; i + 1 < length; ++i) {
    skip[static_cast<std::uint8_t>(needle[i])] = static_cast<std::uint8_t>(length - 1 - i);
  }
  const std::size_t last = haystack.size - length;
  for (std::size_t at = 0; at <= last; at += skip[haystack.data[at + length - 1]]) {
    if (MatchesAt(haystack.data + at, needle, length)) return true;
  }
  return false;
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

  // Counts too large for the header's 16 bits stand in section 0.
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

bool ElfImage::DynamicAddress(std::uint64_t* out) const {
  for (std::size_t i = 0; i < segment_count(); ++i) {
    const Elf64_Phdr segment = Segment(i);
    if (segment.p_type != PT_DYNAMIC) continue;
    *out = segment.p_vaddr;
    return true;
  }
  return false;
}

bool ElfImage::Section(std::size_t index, Elf64_Shdr* out) const {
  return index < section_count() && sections_.Read(index * sizeof(Elf64_Shdr), out);
}

bool ElfImage::HasSection(const char* name) const {
  Elf64_Shdr section;
  for (std::size_t i = 0; Section(i, &section); ++i) {
    if (CompareNames(StringAt(section_names_, section.sh_name), name) == 0) return true;
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
