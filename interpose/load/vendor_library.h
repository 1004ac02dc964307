// NVIDIA's own libraries that have a face of ours, which a program that names one by its path, or
// was linked to find it at one, would get in place of ours. libnvidia-ml.so.1 would show the GPUs
// of the program's node, which are not the run's; libnccl.so.2 would want them in the process.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// One function of a face, as generate_exports.py --versions writes it.
struct FaceExport {
  const char* name;
  void (*function)();
  int version;
  bool absent;
};

struct FaceTable {
  const FaceExport* entries;  // In strcmp's order.
  std::size_t count;
};

enum class VendorLibrary { kNone, kNvml, kNccl };

// The table of this library for a face; empty where it has none, as libraries of tests.
FaceTable ExportsFor(VendorLibrary library);

// Which library of NVIDIA's the image, a file of that path, is; none where it is ours.
VendorLibrary VendorLibraryAt(const char* path, const ElfImage& image);

// Fills `entries` with the library's functions: those of `table` lead there, others by names of its
// kind refuse. Returns how many there are.
std::size_t ListVendorLibrary(VendorLibrary library, const ElfImage& image, const FaceTable& table,
                              Entry* entries, std::size_t capacity);

// The program has loaded this file as its NCCL. One thread at a time; see ProgramsNccl.
void RememberNccl(const char* path);

}  // namespace cuspan::load
