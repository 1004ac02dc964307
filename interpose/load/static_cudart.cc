#include "interpose/load/static_cudart.h"

#include "interpose/load/stripped_cudart.h"

namespace cuspan::load {
namespace {

// Defined by every CUDA runtime, and needed by every program with kernels.
constexpr const char* kMarker = "__cudaRegisterFatBinary";

bool IsDefinedFunction(const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_shndx < SHN_LORESERVE;
}

// Last target beginning before `address`, or null.
Target* LastBefore(TargetList* list, std::uint64_t address) {
  std::size_t low = 0;
  std::size_t high = list->count;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (list->targets[middle].address < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? nullptr : &list->targets[low - 1];
}

// Collects the functions of `exports` defined in `symbols`. False if there are more than fit.
bool CollectTargets(const ElfImage& image, const SymbolTable& symbols, const ExportTable& exports,
                    TargetList* out) {
  out->count = 0;
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    if (!IsDefinedFunction(symbol)) continue;
    const std::size_t index = exports.Find(symbols.Name(symbol));
    if (index == ExportTable::kNone) continue;
    if (out->count == TargetList::kCapacity) return false;
    Elf64_Shdr section;
    std::uint64_t limit = symbol.st_value;  // Without a section there is no room.
    if (image.Section(symbol.st_shndx, &section) && symbol.st_value >= section.sh_addr &&
        symbol.st_value - section.sh_addr <= section.sh_size) {
      limit = section.sh_addr + section.sh_size;
    }
    out->targets[out->count++] = {symbol.st_value, symbol.st_size, limit, index};
  }
  SortByAddress(out);
  return true;
}

// Lowers each target's limit to the next symbol of any kind.
void LimitByNeighbours(const SymbolTable& symbols, TargetList* list) {
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE) continue;
    if (type == STT_TLS || type == STT_SECTION || type == STT_FILE) continue;
    Target* target = LastBefore(list, symbol.st_value);
    if (target != nullptr && symbol.st_value < target->limit) target->limit = symbol.st_value;
  }
}

// Removes duplicates (one function with the same name twice). False if one address would need two
// different functions of ours.
bool Unify(TargetList* list, std::size_t* conflict) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list->count; ++i) {
    if (kept > 0 && list->targets[kept - 1].address == list->targets[i].address) {
      if (list->targets[kept - 1].export_index != list->targets[i].export_index) {
        *conflict = list->targets[i].export_index;
        return false;
      }
      continue;
    }
    list->targets[kept++] = list->targets[i];
  }
  list->count = kept;
  return true;
}

// True if nvcc linked the image, and it does not import a CUDA runtime.
bool LooksStripped(const ElfImage& image, const Bytes& imports) {
  return image.HasSection(".nvFatBinSegment") && !Contains(imports, "libcudart.so");
}

// Searches an image without the names of a CUDA runtime in its symbols.
Search FindInStripped(const ElfImage& image, const ExportTable& exports, TargetList* out) {
  out->count = 0;
  const Bytes imports = image.Symbols(SHT_DYNSYM).names;
  // Every runtime loads the driver by dlsym. If the marker is imported or exported, the runtime is
  // not linked in.
  if (!Contains(imports, "dlsym") || Contains(imports, kMarker)) return {Finding::kNone};
  if (FindStrippedCudart(image, exports, out)) return {Finding::kFound};
  return {LooksStripped(image, imports) ? Finding::kStripped : Finding::kNone};
}

// Code of a target, up to the number of bytes examined.
Bytes CodeOf(const ElfImage& image, const Target& target) {
  constexpr std::size_t kMaxBytes = 128;
  Bytes code = image.BytesFrom(target.address);
  const std::size_t room = target.limit - target.address;
  const std::size_t size = target.size != 0 && target.size < room ? target.size : room;
  if (code.size > size) code.size = size;
  if (code.size > kMaxBytes) code.size = kMaxBytes;
  return code;
}

// True if the code contains a jump through memory or a register.
bool JumpsThroughTable(Bytes code) {
  for (std::size_t at = 0; at + 1 < code.size; ++at) {
    const std::uint8_t second = code.data[at + 1];
    if (code.data[at] == 0xff && (second == 0x25 || (second & 0xf8) == 0xe0)) return true;
  }
  return false;
}

// True if the functions are stubs: they have the runtime's names, but jump through a table filled
// by dlsym from another runtime. No function of a real runtime does this (0 of 422, CUDA 13.0).
bool AreLazyStubs(const ElfImage& image, const TargetList& list) {
  std::size_t stubs = 0;
  for (std::size_t i = 0; i < list.count; ++i)
    if (JumpsThroughTable(CodeOf(image, list.targets[i]))) ++stubs;
  return 2 * stubs > list.count;
}

// Completes the collected functions: one target per address, with its limit.
Search Complete(const SymbolTable& symbols, const ExportTable& exports, TargetList* out) {
  std::size_t conflict = 0;
  if (!Unify(out, &conflict)) {
    return {Finding::kUnusable, "shares its code with another function",
            exports.entries[conflict].name};
  }
  LimitByNeighbours(symbols, out);
  return {Finding::kFound};
}

}  // namespace

Search FindStaticCudart(const ElfImage& image, const ExportTable& exports, bool is_program,
                        TargetList* out) {
  const SymbolTable symbols = image.Symbols(SHT_SYMTAB);
  const std::size_t marker = exports.Find(kMarker);
  out->count = 0;
  // Most files end here: few have a .symtab, and fewer have this name in it.
  if (!Contains(symbols.names, kMarker)) return FindInStripped(image, exports, out);
  if (!is_program && image.Symbols(SHT_DYNSYM).Defines(kMarker)) return {Finding::kNone};
  if (!CollectTargets(image, symbols, exports, out)) {
    return {Finding::kUnusable, "is defined too many times", kMarker};
  }
  bool has_marker = false;
  for (std::size_t i = 0; i < out->count; ++i) {
    has_marker = has_marker || out->targets[i].export_index == marker;
  }
  if (!has_marker) {  // Only imported: linked with -cudart shared.
    return FindInStripped(image, exports, out);
  }
  const Search search = Complete(symbols, exports, out);
  // The runtime behind the stubs is entered when it is loaded.
  if (search.finding == Finding::kFound && AreLazyStubs(image, *out)) return {Finding::kNone};
  return search;
}

Search FindExported(const ElfImage& image, const ExportTable& exports, TargetList* out) {
  const SymbolTable symbols = image.Symbols(SHT_DYNSYM);
  if (!CollectTargets(image, symbols, exports, out)) {
    return {Finding::kUnusable, "defines too many functions", image.SharedName()};
  }
  return out->count == 0 ? Search{Finding::kNone} : Complete(symbols, exports, out);
}

}  // namespace cuspan::load
