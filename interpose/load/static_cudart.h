// Search for the functions of a CUDA runtime linked into a program or library (nvcc's default). It
// uses the names in .symtab or, if the file is stripped, the code (stripped_cudart.h). Also finds
// the functions exported by a library.
//
// Threads: one at a time. No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

enum class Finding {
  kNone,      // No CUDA runtime linked in, or an exported one, already replaced by symbol lookup.
  kFound,     // All its functions known to us are in the list, by ascending address.
  kStripped,  // Device code, no import of a CUDA runtime, none found in symbols or code.
  kUnusable,  // Found, but not replaceable: see `problem` and `name`.
};

struct Search {
  Finding finding = Finding::kNone;
  const char* problem = nullptr;  // Follows the function's name in messages: "is shared with …".
  const char* name = nullptr;     // Points into the image or the export table.
};

// Searches `image` for the CUDA runtime functions in `exports`. `is_program`: true for the main
// executable, as its exported definitions take precedence over ours. A library exporting a CUDA
// runtime (libcudart.so itself, a tracing tool) stays unchanged.
Search FindStaticCudart(const ElfImage& image, const ExportTable& exports, bool is_program,
                        TargetList* out);

// Searches for the functions of `exports` exported by the library `image`: kFound or kUnusable, or
// kNone if there are none.
Search FindExported(const ElfImage& image, const ExportTable& exports, TargetList* out);

}  // namespace cuspan::load
