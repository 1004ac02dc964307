// ELF images: those linked by the software GPU, and compiler objects with fat binaries. All
// functions check every offset against the size.
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

// Image of the software GPU: an ELF file for no machine with PTX as its only section. Its length is
// in its headers, as for machine code.
std::string ImageOfPtx(std::string_view ptx);
// Returns nullopt if `elf` is not a software GPU image.
std::optional<std::string> PtxOfImage(std::span<const std::uint8_t> elf);

// Fat binaries in an object file (nvcc -c and -dc), or in each object of an archive of them.
std::vector<std::span<const std::uint8_t>> FatbinsOfObject(std::span<const std::uint8_t> object);
std::vector<std::span<const std::uint8_t>> FatbinsOfArchive(std::span<const std::uint8_t> archive);

}  // namespace cuspan::softgpu
