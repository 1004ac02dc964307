// Which programs and libraries were entered, and what release of CUDA's runtime
// was linked into them. Written by one thread at a time, read by any; no
// allocation, no C library.
#pragma once

#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

// The major release of a runtime whose functions were found. Each has some that no other has.
int ReleaseOf(const TargetList& found, const ExportTable& exports);

// Remembers that `image`, loaded at `bias`, has a runtime of `release`.
void RememberRelease(const ElfImage& image, std::uint64_t bias, int release);

// A walk over all objects that are loaded, each met by the address of its dynamic section. What is
// remembered and not met has been unloaded, and is forgotten: something else may be there soon.
void BeginWalk();
void Meet(std::uint64_t dynamic);
void EndWalk();

}  // namespace cuspan::load
