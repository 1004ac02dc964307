// Reader of ELF files for x86-64 in memory. Every offset, count and string is checked: no input
// makes it crash.
//
// It runs before the C library and the C++ runtime are set up (see enter.cc). So it does not
// allocate and uses neither of them. Views point into the bytes given to Parse and must not outlive
// them. Objects are plain values. Threads: any, each with its own objects.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

namespace cuspan::load {

// View of bytes with another owner.
struct Bytes {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  // True if [offset, offset + length) is inside.
  bool Holds(std::uint64_t offset, std::uint64_t length) const {
    return offset <= size && length <= size - offset;
  }
  // The range [offset, offset + length). Precondition: Holds(offset, length).
  Bytes Part(std::uint64_t offset, std::uint64_t length) const {
    return {data + offset, static_cast<std::size_t>(length)};
  }
  // Copies a T from `offset`, at any alignment. False if it is not completely inside.
  template <typename T>
  bool Read(std::uint64_t offset, T* out) const {
    if (!Holds(offset, sizeof(T))) return false;
    __builtin_memcpy(out, data + offset, sizeof(T));
    return true;
  }
};

// The order of strcmp, and a prefix test, without the C library.
int CompareNames(const char* a, const char* b);
bool StartsWith(const char* text, const char* prefix);

// First position of `needle` (not empty) in `haystack` from `from` on, or kNowhere.
inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
std::size_t Find(Bytes haystack, const char* needle, std::size_t from = 0);
inline bool Contains(Bytes haystack, const char* needle) {
  return Find(haystack, needle) != kNowhere;
}

// Symbols of a .symtab or .dynsym with their names. Empty if the file has no such table.
struct SymbolTable {
  Bytes entries;
  Bytes names;  // Ends with a zero byte, or is empty.

  std::size_t count() const { return entries.size / sizeof(Elf64_Sym); }
  // Symbol number `index`, below count().
  Elf64_Sym Get(std::size_t index) const;
  // Name of the symbol. "" if it has none, or if its offset is invalid.
  const char* Name(const Elf64_Sym& symbol) const;
  // Defines: true if this file defines the symbol. Mentions: true if this file defines or imports
  // it.
  bool Defines(const char* name) const;
  bool Mentions(const char* name) const;
};

class ElfImage {
 public:
  enum class Verdict {
    kUsable,
    kNotElf,
    kForeign,    // ELF, but not a 64-bit little-endian x86-64 program or shared library.
    kMalformed,  // Its tables point outside the file.
  };

  // Checks the headers of `file`. Other functions may be called only if the result is kUsable.
  Verdict Parse(Bytes file);

  Bytes file() const { return file_; }
  // ET_EXEC or ET_DYN.
  unsigned type() const { return header_.e_type; }
  std::size_t segment_count() const { return segments_.size / sizeof(Elf64_Phdr); }
  // Program header number `index`, below segment_count().
  Elf64_Phdr Segment(std::size_t index) const;
  // Finds the PT_LOAD segment with the virtual addresses [address, address + length) in its file
  // bytes.
  bool FindSegment(std::uint64_t address, std::uint64_t length, Elf64_Phdr* out) const;
  // The file's bytes from a virtual address to the end of its segment. Empty if no segment contains
  // it.
  Bytes BytesFrom(std::uint64_t address) const;
  // Virtual address of the dynamic section. False if there is none.
  bool DynamicAddress(std::uint64_t* out) const;
  // Value of a tag (DT_…) of the dynamic section. False if it is missing.
  bool DynamicValue(std::int64_t tag, std::uint64_t* out) const;
  // DT_SONAME, the name used by other files to import this one. "" if it has none.
  const char* SharedName() const;

  std::size_t section_count() const { return sections_.size / sizeof(Elf64_Shdr); }
  // Section header number `index`. False if there is none.
  bool Section(std::size_t index, Elf64_Shdr* out) const;
  // Name of the section. "" if it has none.
  const char* SectionName(const Elf64_Shdr& section) const;
  bool HasSection(const char* name) const;
  // First table of a type (SHT_SYMTAB or SHT_DYNSYM). Empty if it is missing or outside the file.
  SymbolTable Symbols(unsigned section_type) const;

 private:
  Bytes file_;
  Bytes segments_;
  Bytes sections_;
  Bytes section_names_;
  Elf64_Ehdr header_;
};

}  // namespace cuspan::load
