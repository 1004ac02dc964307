// CUPTI, NVIDIA's profiling interface, loaded by profilers and frameworks by name or by path. It
// needs NVIDIA's own driver in the process. In a run, its functions return
// CUPTI_ERROR_NOT_SUPPORTED, and callers continue as on a machine without a GPU. cuptiGetVersion
// works, because some callers do not start without it.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// True if the file name at `path` begins with libcupti.so.
bool IsCupti(const char* path);

// Fills `entries` with the library's functions and their destinations. Returns their number. From
// now on, the replaced cuptiGetVersion returns this library's version. Threads: one at a time.
std::size_t ListCupti(const ElfImage& image, Entry* entries, std::size_t capacity);

// Reads CUPTI_API_VERSION from the code of the image's cuptiGetVersion. 0 if it cannot be found.
unsigned CuptiVersion(const ElfImage& image);

}  // namespace cuspan::load
