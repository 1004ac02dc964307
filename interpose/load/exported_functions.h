// Sending functions that a loaded library exports elsewhere, by their names: for libraries that a
// program finds by path, so that no library of ours comes before them.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// Whether the file of that path is called `start`, or that and more ("libcupti.so" and ".13").
bool IsLibrary(const char* path, const char* start);

// Fills `entries`, which has room for `capacity`, with the functions of the image's .dynsym for
// which destination_of(name, from) is not 0, by ascending address and each once; returns how many
// there are. `from` is handed on. What is too short for a jump is left out, and so is what finds
// no room in `entries`.
std::size_t ListExportedFunctions(const ElfImage& image,
                                  std::uint64_t (*destination_of)(const char* name,
                                                                  const void* from),
                                  const void* from, Entry* entries, std::size_t capacity);

// The code of a function of the .dynsym, as the file has it; empty when there is none of that name.
Bytes CodeOfExported(const ElfImage& image, const char* name);

}  // namespace cuspan::load
