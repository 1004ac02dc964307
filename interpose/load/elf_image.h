// Reading an ELF file for x86-64 from bytes in memory, with every offset,
// count and string checked: any bytes may be given, none make it crash.
//
// Nothing here allocates, calls the C library or needs the C++ runtime, since
// it runs before either is set up (see enter.cc). Views point into the bytes
// given to Parse, which must outlive them. Objects are plain values: any
// thread may use its own.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

namespace cuspan::load {

// A view of bytes somebody else owns.
struct Bytes {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  // True when [offset, offset + length) lies inside.
  bool Holds(std::uint64_t offset, std::uint64_t length) const {
    return offset <= size && length <= size - offset;
  }
  // The part [offset, offset + length); only to be called when Holds says so.
  Bytes Part(std::uint64_t offset, std::uint64_t length) const {
    return {data + offset, static_cast<std::size_t>(length)};
  }
  // Copies a T from `offset`, which need not be aligned; false when it does not lie inside.
  template <typename T>
  bool Read(std::uint64_t offset, T* out) const {
    if (!Holds(offset, sizeof(T))) return false;
    __builtin_memcpy(out, data + offset, sizeof(T));
    return true;
  }
};

// strcmp's order and strcmp's prefix test, without the C library.
int CompareNames(const char* a, const char* b);
bool StartsWith(const char* text, const char* prefix);

// Where `needle`, which is not empty, first occurs in `haystack` at or behind `from`, or kNowhere.
inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
std::size_t Find(Bytes haystack, const char* needle, std::size_t from = 0);
inline bool Contains(Bytes haystack, const char* needle) {
  return Find(haystack, needle) != kNowhere;
}

// The symbols of a .symtab or .dynsym with their names. Empty when there is none.
struct SymbolTable {
  Bytes entries;
  Bytes names;  // Ends with a zero byte, or is empty.

  std::size_t count() const { return entries.size / sizeof(Elf64_Sym); }
  // The symbol numbered `index`, which must be below count().
  Elf64_Sym Get(std::size_t index) const;
  // Its name; "" when the file gives none or a bad offset.
  const char* Name(const Elf64_Sym& symbol) const;
  // True when a symbol of that name is there: defined in this file, or only used by it.
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

  // Looks at the headers in `file`. The other functions may be called after kUsable only.
  Verdict Parse(Bytes file);

  Bytes file() const { return file_; }
  // ET_EXEC or ET_DYN.
  unsigned type() const { return header_.e_type; }
  std::size_t segment_count() const { return segments_.size / sizeof(Elf64_Phdr); }
  // The program header numbered `index`, which must be below segment_count().
  Elf64_Phdr Segment(std::size_t index) const;
  // Finds the PT_LOAD segment whose bytes from the file hold the virtual addresses
  // [address, address + length).
  bool FindSegment(std::uint64_t address, std::uint64_t length, Elf64_Phdr* out) const;
  // The bytes from the file from a virtual address to the end of its segment; empty when none holds
  // it.
  Bytes BytesFrom(std::uint64_t address) const;
  // The virtual address of the dynamic section; false when there is none.
  bool DynamicAddress(std::uint64_t* out) const;
  // What the dynamic section says under a tag (DT_…); false when it says nothing.
  bool DynamicValue(std::int64_t tag, std::uint64_t* out) const;
  // The name under which other files need this one (DT_SONAME); "" when it has none.
  const char* SharedName() const;

  std::size_t section_count() const { return sections_.size / sizeof(Elf64_Shdr); }
  // The section header numbered `index`; false when there is none.
  bool Section(std::size_t index, Elf64_Shdr* out) const;
  // Its name; "" when the file gives none.
  const char* SectionName(const Elf64_Shdr& section) const;
  bool HasSection(const char* name) const;
  // The first table of a type, SHT_SYMTAB or SHT_DYNSYM; empty when there is none
  // or when it does not lie inside the file.
  SymbolTable Symbols(unsigned section_type) const;

 private:
  Bytes file_;
  Bytes segments_;
  Bytes sections_;
  Bytes section_names_;
  Elf64_Ehdr header_;
};

}  // namespace cuspan::load
