// Images in the form of ELF files: those that the software GPU links, and the objects of compilers,
// which hold fat binaries. All functions check every offset against what is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuspan::softgpu {

bool IsElf(const void* image);  // Reads four bytes.

// An image of the software GPU: an ELF file of no machine, whose one section is PTX. It says how
// long it is, as machine code does.
std::string ImageOfPtx(std::string_view ptx);
// Nothing where `elf` is no such image.
std::optional<std::string> PtxOfImage(std::span<const std::uint8_t> elf);

// The fat binaries in an object file (nvcc -c and -dc), or in each object of an archive of them.
std::vector<std::span<const std::uint8_t>> FatbinsOfObject(std::span<const std::uint8_t> object);
std::vector<std::span<const std::uint8_t>> FatbinsOfArchive(std::span<const std::uint8_t> archive);

}  // namespace cuspan::softgpu
