// Finding the functions of a CUDA runtime that is linked into a program or a
// library (nvcc's default), by the names in its .symtab, or, where it was stripped,
// by what its code tells (stripped_cudart.h); and those that a library exports.
//
// One thread at a time; no allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

enum class Finding {
  kNone,      // No CUDA runtime linked in, or one that is exported and so already answered by us.
  kFound,     // All its functions that we export are in the list, by ascending address.
  kStripped,  // Device code, no import of a CUDA runtime, none among the symbols, none understood.
  kUnusable,  // Found, and not to be replaced as it is: `problem` and `name` say what and where.
};

struct Search {
  Finding finding = Finding::kNone;
  const char* problem = nullptr;  // For a person, after the function's name: "is shared with …".
  const char* name = nullptr;     // Points into the image or the export table.
};

// Looks for the functions of `exports`, those of the CUDA runtime, in `image`. `is_program` is true
// for the main executable, whose exported definitions would win over ours; a library that exports a
// CUDA runtime (libcudart.so itself, a tracing tool) is left alone.
Search FindStaticCudart(const ElfImage& image, const ExportTable& exports, bool is_program,
                        TargetList* out);

// Looks for the functions of `exports` that the library `image` exports: kFound or kUnusable, and
// kNone when there are none.
Search FindExported(const ElfImage& image, const ExportTable& exports, TargetList* out);

}  // namespace cuspan::load
