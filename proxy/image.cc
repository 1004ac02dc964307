#include "proxy/image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {
namespace {

bool Inside(std::uint64_t offset, std::uint64_t bytes, std::size_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

Status CheckElf(std::span<const std::byte> image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return Status::Invalid("an ELF image of {} bytes", image.size());
  std::memcpy(&header, image.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Status::Invalid("an ELF image that is not of 64 bits");
  if (!Inside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize, image.size()) ||
      !Inside(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize, image.size()) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)))
    return Status::Invalid("an ELF image whose tables lie outside its {} bytes", image.size());
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !Inside(section.sh_offset, section.sh_size, image.size()))
      return Status::Invalid("an ELF image whose section {} lies outside its {} bytes", i, image.size());
  }
  return Status::Ok();
}

}  // namespace

Status CheckImage(std::span<const std::byte> image) {
  std::uint32_t magic = 0;
  if (image.size() < sizeof magic) return Status::Invalid("a module image of {} bytes", image.size());
  std::memcpy(&magic, image.data(), sizeof magic);
  if (magic == fatbin::kContainerMagic) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(image.data()), image.size());
    return fatbin::ReadContainer(bytes).status();
  }
  if (std::memcmp(image.data(), ELFMAG, SELFMAG) == 0) return CheckElf(image);
  if (std::find(image.begin(), image.end(), std::byte{0}) == image.end())
    return Status::Invalid("a module image of {} bytes that is no fat binary, no ELF image and no text with an end",
                           image.size());
  return Status::Ok();
}

}  // namespace cuspan::proxy
