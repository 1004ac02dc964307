// Redirection of a loaded library's exported functions, by name. Needed for libraries loaded by
// path, because symbol lookup does not find our functions first.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// True if the file name in `path` begins with `start` ("libcupti.so" for "libcupti.so.13").
bool IsLibrary(const char* path, const char* start);

// Fills `entries` (room for `capacity`) with functions of the image's .dynsym, each once, by
// ascending address. Includes functions with destination_of(name, from) not 0. Returns their
// number. Functions too short for a jump are omitted, as are those beyond `capacity`.
std::size_t ListExportedFunctions(const ElfImage& image,
                                  std::uint64_t (*destination_of)(const char* name,
                                                                  const void* from),
                                  const void* from, Entry* entries, std::size_t capacity);

// Code of a function of the .dynsym, from the file. Empty if there is no such function.
Bytes CodeOfExported(const ElfImage& image, const char* name);

}  // namespace cuspan::load
