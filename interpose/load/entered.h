// Table of entered programs and libraries, with the release of the CUDA runtime linked into each.
// Threads: one writer at a time, any readers. No allocation, no C library.
#pragma once

#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

// Major release of a runtime, derived from its functions. Each release has functions missing in the
// others.
int ReleaseOf(const TargetList& found, const ExportTable& exports);

// Records a runtime of `release` in `image`, loaded at `bias`.
void RememberRelease(const ElfImage& image, std::uint64_t bias, int release);

// Walk over all loaded objects. Each one is reported by the address of its dynamic section. EndWalk
// forgets recorded objects not reported: they are unloaded, and their addresses may be reused.
void BeginWalk();
void Meet(std::uint64_t dynamic);
void EndWalk();

}  // namespace cuspan::load
