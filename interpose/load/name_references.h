// References to function names in the code of a stripped file.
//
// Profiling tools (CUPTI) receive the name of each function called. So each function of a CUDA
// runtime refers to its own name. The instructions differ between compilers, but all use relative
// addresses, either of the name or of a pointer to it.
//
// Threads: one at a time. No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/unwind_table.h"

namespace cuspan::load {

struct NameReference {
  std::uint32_t function;      // The referring function, as numbered by the unwind table.
  std::uint32_t export_index;  // The export with this name.
};

struct NameReferences {
  static constexpr std::size_t kCapacity = 16384;
  NameReference items[kCapacity];
  std::size_t count;
};

// Fills `out` with the references in `image` to names of `exports`, ordered by function and export.
// False, with `out` empty, if the image has no names of a CUDA runtime (a quick check), or more
// references than fit.
bool FindNameReferences(const ElfImage& image, const ExportTable& exports,
                        const UnwindTable& functions, NameReferences* out);

}  // namespace cuspan::load
