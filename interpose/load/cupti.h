// CUPTI, NVIDIA's profiling interface, which profilers and frameworks load by name or by path. It
// works only with NVIDIA's own driver in the process. In a program of a run its functions answer
// CUPTI_ERROR_NOT_SUPPORTED, with which they go on as on a machine that has no GPU; its version
// they are told, since some will not start without.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// Whether a file of that path is a CUPTI: libcupti.so, and whatever follows.
bool IsCupti(const char* path);

// Fills `entries` with the functions of such a library and where they are to lead; returns how many
// there are. The library's version is what they answer from now on. One thread at a time.
std::size_t ListCupti(const ElfImage& image, Entry* entries, std::size_t capacity);

// The number that cuptiGetVersion of the image stores (CUPTI_API_VERSION), from its code; 0 when
// that can not be told.
unsigned CuptiVersion(const ElfImage& image);

}  // namespace cuspan::load
