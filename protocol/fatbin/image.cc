#include "protocol/fatbin/image.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {
namespace {

using Magic = std::array<std::uint8_t, 4>;

// The bytes in memory order.
constexpr Magic MagicOf(std::uint32_t number) {
  return {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number >> 16), static_cast<std::uint8_t>(number >> 24)};
}

constexpr Magic kElfMagic = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3};

// Byte by byte: the text may be shorter than the magic.
bool StartsWith(const std::uint8_t* image, std::uint64_t readable, const Magic& magic) {
  for (std::size_t i = 0; i < magic.size(); ++i) {
    if (i == readable || image[i] != magic[i]) return false;
  }
  return true;
}

// Extent of all parts listed by an ELF image.
class ElfExtent {
 public:
  ElfExtent(const std::uint8_t* image, std::uint64_t readable, CanRead can_read)
      : image_(image), readable_(readable), can_read_(can_read) {}
  // Adds a part; true if everything from the image's start to its end is readable.
  bool Add(std::uint64_t offset, std::uint64_t bytes) {
    if (offset > readable_ || bytes > readable_ - offset) return false;
    const std::uint64_t end = offset + bytes;
    if (end <= end_) return true;
    if (!can_read_(image_ + end_, end - end_)) return false;
    end_ = end;
    return true;
  }
  std::uint64_t end() const { return end_; }

 private:
  const std::uint8_t* const image_;
  const std::uint64_t readable_;
  const CanRead can_read_;
  std::uint64_t end_ = 0;
};

template <typename T>
T Load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Result<std::uint64_t> ElfBytes(const std::uint8_t* image, std::uint64_t readable,
                               CanRead can_read) {
  ElfExtent extent(image, readable, can_read);
  if (!extent.Add(0, sizeof(Elf64_Ehdr)))
    return Status::Invalid("the ELF image is too short: {} bytes", readable);
  const auto header = Load<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return Status::Invalid("the ELF image is not a 64-bit one");
  if ((header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)))
    return Status::Invalid("the tables of the ELF image have entries of an unknown size");
  if (!extent.Add(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      !extent.Add(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    return Status::Invalid("the tables of the ELF image are outside its {} bytes", readable);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = Load<Elf64_Shdr>(image + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && !extent.Add(section.sh_offset, section.sh_size))
      return Status::Invalid("section {} of the ELF image is outside its {} bytes", i, readable);
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = Load<Elf64_Phdr>(image + header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!extent.Add(segment.p_offset, segment.p_filesz))
      return Status::Invalid("segment {} of the ELF image is outside its {} bytes", i, readable);
  }
  return extent.end();
}

}  // namespace

ImageKind KindOf(const void* image, std::uint64_t readable) {
  const auto* const bytes = static_cast<const std::uint8_t*>(image);
  if (StartsWith(bytes, readable, MagicOf(kWrapperMagic))) return ImageKind::kWrapper;
  if (StartsWith(bytes, readable, MagicOf(kContainerMagic))) return ImageKind::kContainer;
  if (StartsWith(bytes, readable, kElfMagic)) return ImageKind::kElf;
  return ImageKind::kText;
}

namespace {

// Length of the text with its NUL, checked page by page; 0 if there is no NUL.
std::uint64_t TextBytes(const std::uint8_t* text, std::uint64_t readable, CanRead can_read) {
  constexpr std::uint64_t kPage = 4096;
  for (std::uint64_t begin = 0; begin < readable;) {
    const std::uint64_t to_page_end =
        kPage - (reinterpret_cast<std::uintptr_t>(text) + begin) % kPage;
    const std::uint64_t bytes = std::min(readable - begin, to_page_end);
    if (!can_read(text + begin, bytes)) return 0;
    const std::size_t length = strnlen(reinterpret_cast<const char*>(text + begin), bytes);
    if (length != bytes) return begin + length + 1;
    begin += bytes;
  }
  return 0;
}

Result<std::uint64_t> BytesOf(ImageKind kind, const void* image, std::uint64_t readable,
                              CanRead can_read) {
  const auto* const bytes = static_cast<const std::uint8_t*>(image);
  switch (kind) {
    case ImageKind::kWrapper:
      return Status::Invalid("expected a module image, not a wrapper of fat binaries");
    case ImageKind::kContainer: {
      // 16 bytes: the container header.
      if (readable < 16) return Status::Invalid("the fat binary is too short: {} bytes", readable);
      Result<std::uint64_t> size = ContainerBytes(image, can_read);
      if (size.ok() && *size > readable)
        return Status::Invalid("fat binary cut short: it claims {} bytes where {} are there", *size,
                               readable);
      return size;
    }
    case ImageKind::kElf:
      return ElfBytes(bytes, readable, can_read);
    case ImageKind::kText:
      break;
  }
  const std::uint64_t text = TextBytes(bytes, readable, can_read);
  if (text == 0)
    return Status::Invalid(
        "the module image of {} bytes is neither a fat binary, nor an ELF image, nor "
        "null-terminated PTX",
        readable);
  return text;
}

}  // namespace

Result<std::uint64_t> ImageBytes(const void* image, std::uint64_t readable) {
  return BytesOf(KindOf(image, readable), image, readable, Trusted);
}

Result<std::uint64_t> ImageBytes(const void* image, CanRead can_read) {
  return BytesOf(KindOf(image, can_read), image, kMaxModuleBytes, can_read);
}

ImageKind KindOf(const void* image, CanRead can_read) {
  std::uint64_t readable = sizeof(Magic);
  while (readable != 0 && !can_read(image, readable)) --readable;
  return KindOf(image, readable);
}

Status CheckImage(std::span<const std::byte> image) {
  // Drivers read the magic number first.
  if (image.size() < sizeof(std::uint32_t))
    return Status::Invalid("the device code is too short: {} bytes", image.size());
  CUSPAN_RETURN_IF_ERROR(ImageBytes(image.data(), image.size()).status());
  if (KindOf(image.data(), image.size()) != ImageKind::kContainer) return Status::Ok();
  return ReadContainer({reinterpret_cast<const std::uint8_t*>(image.data()), image.size()})
      .status();
}

}  // namespace cuspan::fatbin
