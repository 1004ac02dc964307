// Where the code of a stripped file refers to the names of functions.
//
// Tools that watch a program (CUPTI) are told the name of the function that was called, so each
// function of a CUDA runtime refers to its own. By what instruction depends on the compiler: all
// address what they refer to relative to themselves, either the name itself or a pointer to it.
//
// One thread at a time; no allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/unwind_table.h"

namespace cuspan::load {

struct NameReference {
  std::uint32_t function;      // That refers to it, as the unwind table numbers them.
  std::uint32_t export_index;  // Whose name it is.
};

struct NameReferences {
  static constexpr std::size_t kCapacity = 16384;
  NameReference items[kCapacity];
  std::size_t count;
};

// Fills `out` with the references in `image` to names of `exports`, ordered by function and export.
// False, and `out` empty, when the image does not hold the names of a CUDA runtime, which is soon
// seen, or holds more than there is room for.
bool FindNameReferences(const ElfImage& image, const ExportTable& exports,
                        const UnwindTable& functions, NameReferences* out);

}  // namespace cuspan::load
