#include "protocol/fatbin/callers.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"
#include "protocol/fatbin/payload.h"
#include "protocol/fatbin/read_at.h"

namespace cuspan::fatbin {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Longest name in an image, in bytes; longer ones are cut. Damaged images may have a name of any
// length many times.
constexpr std::size_t kLongestName = 16 * 1024;

// The text up to its NUL; empty outside `bytes`.
std::string_view TextAt(Bytes bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return {};
  const auto* const text = reinterpret_cast<const char*>(bytes.data() + offset);
  return {text, ::strnlen(text, std::min<std::uint64_t>(bytes.size() - offset, kLongestName))};
}

// An ELF image of machine code.
class Elf {
 public:
  // False if it is damaged.
  bool Open(Bytes image) {
    image_ = image;
    const auto header = ReadAt<Elf64_Ehdr>(image, 0);
    if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return false;
    for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
      const auto section = ReadAt<Elf64_Shdr>(image, header->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return false;
      sections_.push_back(*section);
      if (section->sh_type == SHT_SYMTAB) symbols_ = BytesOf(*section);
      if (section->sh_type == SHT_SYMTAB) names_of_symbols_ = section->sh_link;
    }
    if (header->e_shstrndx >= sections_.size() || names_of_symbols_ >= sections_.size())
      return false;
    names_ = BytesOf(sections_[header->e_shstrndx]);
    symbol_names_ = BytesOf(sections_[names_of_symbols_]);
    return true;
  }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view NameOf(const Elf64_Shdr& section) const {
    return TextAt(names_, section.sh_name);
  }
  Bytes BytesOf(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > image_.size() ||
        section.sh_size > image_.size() - section.sh_offset)
      return {};
    return image_.subspan(section.sh_offset, section.sh_size);
  }
  // Ends when visit(number, symbol, name) is false.
  template <typename Visit>
  void ForEachSymbol(Visit&& visit) const {
    for (std::uint32_t i = 0;
         const auto symbol = ReadAt<Elf64_Sym>(symbols_, i * sizeof(Elf64_Sym)); ++i)
      if (!visit(i, *symbol, TextAt(symbol_names_, symbol->st_name))) return;
  }

 private:
  Bytes image_;
  std::vector<Elf64_Shdr> sections_;
  Bytes names_;
  Bytes symbols_;
  std::uint64_t names_of_symbols_ = 0;
  Bytes symbol_names_;
};

// Maximum length of all names, as a multiple of the image's size. Names may share their ends.
constexpr std::uint64_t kNameBytesPerByte = 4;

// Flag of a kernel's symbol, in st_other.
constexpr unsigned char kEntry = 0x10;
// A kernel launching others: these may be the callers. Part of the names of the functions for it.
constexpr std::string_view kLaunchFunctions[] = {"cudaLaunchDevice", "cudaCDP",
                                                 "__cuda_syscall_cnp"};

constexpr std::string_view kAttributes = ".nv.info.";
constexpr std::uint8_t kExterns = 0x0f;     // EIATTR_EXTERNS: u32 numbers of symbols.
constexpr std::uint8_t kSizedFormat = 4;    // The header's last two bytes are a size.
constexpr std::uint8_t kLargestFormat = 4;  // Other formats have the value itself there.

// True if the attributes of a function list the symbol among its externs; nothing if they are not
// understood.
std::optional<bool> ListsExtern(Bytes attributes, std::uint32_t symbol) {
  bool found = false;
  for (std::uint64_t at = 0; at < attributes.size();) {
    const auto format = ReadAt<std::uint8_t>(attributes, at);
    const auto attribute = ReadAt<std::uint8_t>(attributes, at + 1);
    const auto size = ReadAt<std::uint16_t>(attributes, at + 2);
    if (!size || *format == 0 || *format > kLargestFormat) return std::nullopt;
    at += 4;
    if (*format != kSizedFormat) continue;
    if (*attribute == kExterns)
      for (std::uint64_t i = 0; i + sizeof(std::uint32_t) <= *size; i += sizeof(std::uint32_t))
        found = found || ReadAt<std::uint32_t>(attributes, at + i) == symbol;
    at += *size;
  }
  return found;
}

class Search {
 public:
  explicit Search(std::string_view function) : function_(function) {}
  const Callers& found() const { return found_; }

  void InImage(Bytes image) {
    if (image.size() > left_) return All();
    left_ -= image.size();
    const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
    if (text.find(function_) == std::string_view::npos) return;
    const bool elf = image.size() >= SELFMAG && std::memcmp(image.data(), ELFMAG, SELFMAG) == 0;
    if (elf)
      InElf(image);
    else
      InPtx(text);
  }
  void InContainer(Bytes bytes, bool has_objects) {
    const Result<Container> container = ReadContainer(bytes);
    if (!container.ok()) return All();
    for (const Entry& entry : container->entries)
      if (!found_.all) InEntry(entry, has_objects);
  }

 private:
  void All() { found_.all = true; }
  void InEntry(const Entry& entry, bool has_objects) {
    // Objects do not contain objects.
    if (entry.kind == Kind::kObject) return has_objects ? InContainer(entry.payload, false) : All();
    if (entry.kind != Kind::kPtx && entry.kind != Kind::kElf) return All();
    const Result<std::vector<std::uint8_t>> image = DecodePayload(entry, left_);
    if (!image.ok()) return All();
    InImage(*image);
  }
  void InElf(Bytes image) {
    Elf elf;
    if (!elf.Open(image)) return All();
    std::optional<std::uint32_t> function;
    std::set<std::string_view> kernels;
    std::uint64_t left_of_names = kNameBytesPerByte * image.size();
    elf.ForEachSymbol([&](std::uint32_t number, const Elf64_Sym& symbol, std::string_view name) {
      if (name.size() > left_of_names || NamesLaunch(name)) {
        All();
        return false;
      }
      left_of_names -= name.size();
      if (name == function_) function = number;
      if ((symbol.st_other & kEntry) != 0) kernels.insert(name);
      return true;
    });
    if (!function || found_.all) return;
    bool listed = false;
    // Sections of a sound image do not overlap.
    std::uint64_t left = image.size();
    for (const Elf64_Shdr& section : elf.sections()) {
      std::string_view name = elf.NameOf(section);
      if (!name.starts_with(kAttributes)) continue;
      name.remove_prefix(kAttributes.size());
      const Bytes attributes = elf.BytesOf(section);
      if (attributes.size() > left) return All();
      left -= attributes.size();
      const std::optional<bool> lists = ListsExtern(attributes, *function);
      if (!lists) return All();
      if (!*lists) continue;
      // Its callers are not known.
      if (!kernels.contains(name)) return All();
      found_.kernels.emplace(name);
      listed = true;
    }
    if (!listed) All();
  }
  // One pass: finds the bodies one after the other, and the name in each.
  void InPtx(std::string_view text) {
    if (NamesLaunch(text)) return All();
    constexpr std::string_view kKernel = ".entry";
    constexpr std::string_view kFunction = ".func";
    std::size_t next_kernel = text.find(kKernel);
    std::size_t next_function = text.find(kFunction);
    std::size_t name = text.find(function_);
    if (name < std::min(next_kernel, next_function)) return All();
    while (name != std::string_view::npos) {
      const std::size_t begin = std::min(next_kernel, next_function);
      const bool is_kernel = begin == next_kernel;
      if (is_kernel)
        next_kernel = text.find(kKernel, begin + kKernel.size());
      else
        next_function = text.find(kFunction, begin + kFunction.size());
      const std::size_t end = std::min({next_kernel, next_function, text.size()});
      if (name >= end) continue;
      const std::string_view body = text.substr(begin, end - begin);
      if (is_kernel) {
        const std::string_view kernel = KernelOf(body.substr(kKernel.size()));
        if (kernel.empty()) return All();
        found_.kernels.emplace(kernel);
      } else if (!IsDeclaration(body)) {
        return All();
      }
      name = text.find(function_, end);
    }
  }
  // The name after ".entry".
  static std::string_view KernelOf(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return {};
    const std::size_t end = text.find_first_of(" \t\r\n({;", begin);
    return end == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin);
  }
  static bool NamesLaunch(std::string_view text) {
    return std::ranges::any_of(kLaunchFunctions, [&](std::string_view launch) {
      return text.find(launch) != std::string_view::npos;
    });
  }
  // True if the function has no body.
  static bool IsDeclaration(std::string_view text) {
    const std::size_t end = text.find_first_of("{;");
    return end != std::string_view::npos && text[end] == ';';
  }

  const std::string_view function_;
  std::uint64_t left_ = kMaxSearchedBytes;
  Callers found_;
};

}  // namespace

Callers FindCallers(std::span<const std::byte> image, std::string_view function) {
  Search search(function);
  const Bytes bytes(reinterpret_cast<const std::uint8_t*>(image.data()), image.size());
  if (KindOf(image.data(), image.size()) == ImageKind::kContainer)
    search.InContainer(bytes, true);
  else
    search.InImage(bytes);
  return search.found();
}

}  // namespace cuspan::fatbin
