// Finding the functions of a CUDA runtime that is linked into a stripped file, whichever release it
// is of, however it was compiled and laid out.
//
// - Each public function refers to its own name (name_references.h), and nearly each begins by
// calling one
//   function of the runtime, which nothing outside the runtime does. So a function is taken for the
//   one whose name it refers to when that is the only name, no other function claims it, and it
//   begins with that call.
// - The functions that compilers call without a name (__cudaRegisterFatBinary and others) stand
// around
//   __cudaInitModule, which has one, in the order of NVIDIA's source. They are taken for what that
//   order says only when everything about them fits: how many there are, which begin with that
//   call, which are each other's twins, and which lead on to functions known by then.
//
// Where anything does not fit, nothing is taken for found. One thread at a time; no allocation, no
// C library (see elf_image.h).
#pragma once

#include "interpose/load/elf_image.h"
#include "interpose/load/exports.h"
#include "interpose/load/targets.h"

namespace cuspan::load {

// Fills `out` with the functions of `exports` in the one CUDA runtime that `image` holds, by
// ascending address. False, and `out` empty, when it holds none or one that is not understood.
bool FindStrippedCudart(const ElfImage& image, const ExportTable& exports, TargetList* out);

}  // namespace cuspan::load
