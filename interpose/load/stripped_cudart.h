// Search for the functions of a CUDA runtime linked into a stripped file, independent of its
// release, compiler and layout.
//
// - Each public function refers to its own name (name_references.h). Nearly each one begins with a
//   call of one internal function, never called by other code. A function is identified by a name
//   if it refers to no other name, no other function claims the name, and it begins with this call.
// - Compilers call some functions without a name (__cudaRegisterFatBinary and others). These
//   surround __cudaInitModule, a function with a name, in the order of NVIDIA's source. They are
//   identified by this order only if all their properties match. These are: their number, the call
//   at their beginning, pairs of equal size, and jumps to functions already identified.
//
// If anything does not match, the result is empty. Threads: one at a time. No allocation, no C
// library (see elf_image.h).
#pragma once

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

// Fills `out` with the functions of `exports` in the only CUDA runtime in `image`, by ascending
// address. False, with `out` empty, if there is none or it is not understood.
bool FindStrippedCudart(const ElfImage& image, const ExportTable& exports, TargetList* out);

}  // namespace cuspan::load
