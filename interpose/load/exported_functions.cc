#include "interpose/load/exported_functions.h"

namespace cuspan::load {
namespace {

bool IsExportedFunction(const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_shndx < SHN_LORESERVE;
}

// End of the symbol's section. The symbol's own address if it has none.
std::uint64_t EndOfSection(const ElfImage& image, const Elf64_Sym& symbol) {
  Elf64_Shdr section;
  if (!image.Section(symbol.st_shndx, &section) || symbol.st_value < section.sh_addr ||
      symbol.st_value - section.sh_addr > section.sh_size)
    return symbol.st_value;
  return section.sh_addr + section.sh_size;
}

// Inserts in order of address. False if the function is already in the list.
bool Insert(const Entry& entry, Entry* entries, std::size_t count) {
  std::size_t at = count;
  while (at > 0 && entries[at - 1].address > entry.address) --at;
  if (at > 0 && entries[at - 1].address == entry.address) return false;
  for (std::size_t i = count; i > at; --i) entries[i] = entries[i - 1];
  entries[at] = entry;
  return true;
}

// True if a jump fits before entry.limit. A stripped library has no symbols for its internal
// functions, so only padding may follow the function's own bytes.
bool HasRoom(const ElfImage& image, const Entry& entry) {
  Elf64_Phdr segment;
  const std::uint64_t bytes = entry.limit - entry.address;
  if (!image.FindSegment(entry.address, bytes, &segment)) return false;
  return PlaceJump(image.file().Part(segment.p_offset + (entry.address - segment.p_vaddr), bytes),
                   entry.size)
      .fits;
}

}  // namespace

bool IsLibrary(const char* path, const char* start) {
  const char* name = path;
  for (const char* at = path; *at != 0; ++at)
    if (*at == '/') name = at + 1;
  return StartsWith(name, start);
}

std::size_t ListExportedFunctions(const ElfImage& image,
                                  std::uint64_t (*destination_of)(const char* name,
                                                                  const void* from),
                                  const void* from, Entry* entries, std::size_t capacity) {
  const SymbolTable symbols = image.Symbols(SHT_DYNSYM);
  std::size_t count = 0;
  for (std::size_t i = 0; i < symbols.count() && count < capacity; ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    if (!IsExportedFunction(symbol)) continue;
    const std::uint64_t destination = destination_of(symbols.Name(symbol), from);
    if (destination == 0) continue;
    const Entry entry{symbol.st_value, symbol.st_size, EndOfSection(image, symbol), destination};
    if (Insert(entry, entries, count)) ++count;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Entry entry = entries[i];
    if (i + 1 < count && entries[i + 1].address < entry.limit) entry.limit = entries[i + 1].address;
    if (HasRoom(image, entry)) entries[kept++] = entry;
  }
  return kept;
}

Bytes CodeOfExported(const ElfImage& image, const char* name) {
  const SymbolTable symbols = image.Symbols(SHT_DYNSYM);
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    Elf64_Phdr segment;
    if (!IsExportedFunction(symbol) || CompareNames(symbols.Name(symbol), name) != 0) continue;
    if (!image.FindSegment(symbol.st_value, symbol.st_size, &segment)) return {};
    return image.file().Part(segment.p_offset + (symbol.st_value - segment.p_vaddr),
                             symbol.st_size);
  }
  return {};
}

}  // namespace cuspan::load
