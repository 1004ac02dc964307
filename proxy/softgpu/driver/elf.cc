#include "proxy/softgpu/driver/elf.h"

#include <ar.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/read_at.h"

namespace cuspan::softgpu {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Names of our images' sections; the first is empty.
constexpr char kNames[] = "\0.cuspan.ptx\0.shstrtab";
constexpr std::string_view kPtxSection = &kNames[1];
// Sections in which nvcc puts fat binaries: of whole programs, and of objects to be linked.
constexpr std::string_view kFatbinSections[] = {".nv_fatbin", "__nv_relfatbin"};

std::optional<Bytes> Part(Bytes bytes, std::uint64_t offset, std::uint64_t length) {
  if (offset > bytes.size() || length > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, length);
}

// Calls use(name, bytes) for the sections located in the file.
template <typename Use>
void ForSections(Bytes elf, Use&& use) {
  const auto header = fatbin::ReadAt<Elf64_Ehdr>(elf, 0);
  if (!header || !IsElf(elf.data()) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return;
  const auto section = [&](std::uint64_t index) {
    return fatbin::ReadAt<Elf64_Shdr>(elf, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names_section = section(header->e_shstrndx);
  if (!names_section) return;
  const auto names = Part(elf, names_section->sh_offset, names_section->sh_size);
  if (!names) return;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto entry = section(i);
    if (!entry || entry->sh_type == SHT_NOBITS || entry->sh_name >= names->size()) continue;
    const auto* const name = reinterpret_cast<const char*>(names->data()) + entry->sh_name;
    const auto bytes = Part(elf, entry->sh_offset, entry->sh_size);
    if (bytes) use(std::string_view(name, strnlen(name, names->size() - entry->sh_name)), *bytes);
  }
}

// Adds the consecutive containers of a section.
void AddContainers(Bytes section, std::vector<Bytes>* containers) {
  constexpr std::size_t kHeader = 16;
  constexpr std::size_t kAlignment = 8;
  while (section.size() >= kHeader && fatbin::IsContainer(section.data())) {
    const Result<std::uint64_t> bytes = fatbin::ContainerBytes(section.data());
    if (!bytes.ok() || *bytes > section.size()) return;
    containers->push_back(section.first(*bytes));
    const std::uint64_t next = (*bytes + kAlignment - 1) / kAlignment * kAlignment;
    section = section.subspan(std::min<std::uint64_t>(next, section.size()));
  }
}

}  // namespace

bool IsElf(const void* image) { return std::memcmp(image, ELFMAG, SELFMAG) == 0; }

std::string ImageOfPtx(std::string_view ptx) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_NONE;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  Elf64_Shdr sections[3]{};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = ptx.size();
  sections[2].sh_name = static_cast<Elf64_Word>(1 + kPtxSection.size() + 1);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof header + ptx.size();
  sections[2].sh_size = sizeof kNames;
  header.e_shoff = sizeof header + ptx.size() + sizeof kNames;
  std::string image;
  const auto append = [&](const void* data, std::size_t bytes) {
    image.append(static_cast<const char*>(data), bytes);
  };
  append(&header, sizeof header);
  image += ptx;
  append(kNames, sizeof kNames);
  append(sections, sizeof sections);
  return image;
}

std::optional<std::string> PtxOfImage(Bytes elf) {
  std::optional<std::string> ptx;
  ForSections(elf, [&](std::string_view name, Bytes bytes) {
    if (name == kPtxSection) ptx.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return ptx;
}

std::vector<Bytes> FatbinsOfObject(Bytes object) {
  std::vector<Bytes> containers;
  ForSections(object, [&](std::string_view name, Bytes bytes) {
    if (std::ranges::find(kFatbinSections, name) != std::end(kFatbinSections))
      AddContainers(bytes, &containers);
  });
  return containers;
}

std::vector<Bytes> FatbinsOfArchive(Bytes archive) {
  std::vector<Bytes> containers;
  if (!Part(archive, 0, SARMAG) || std::memcmp(archive.data(), ARMAG, SARMAG) != 0) return {};
  for (std::uint64_t at = SARMAG; const auto header = fatbin::ReadAt<ar_hdr>(archive, at);) {
    std::uint64_t bytes = 0;
    for (const char digit : header->ar_size) {
      if (digit < '0' || digit > '9') break;
      bytes = bytes * 10 + static_cast<std::uint64_t>(digit - '0');
    }
    const auto member = Part(archive, at + sizeof(ar_hdr), bytes);
    if (!member) break;
    for (const Bytes container : FatbinsOfObject(*member)) containers.push_back(container);
    at += sizeof(ar_hdr) + bytes + bytes % 2;  // Members begin at even offsets.
  }
  return containers;
}

}  // namespace cuspan::softgpu
