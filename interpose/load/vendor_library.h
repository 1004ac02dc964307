// NVIDIA's own libraries with a replacement of ours. A program naming one by path, or linked to
// find it at a path, would bypass the replacement. libnvidia-ml.so.1 would show the GPUs of the
// program's node instead of the run's. libnccl.so.2 would need the GPUs in the process.
// libcufile.so.0 would look at the disks of the program's node, and copy every byte by itself.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// One function of a replacement, as written by generate_exports.py --versions.
struct FaceExport {
  const char* name;
  void (*function)();
  int version;
  bool absent;
};

struct FaceTable {
  const FaceExport* entries;  // Sorted in the order of strcmp.
  std::size_t count;
};

enum class VendorLibrary { kNone, kNvml, kNccl, kCufile };

// Our table of a replaced library. Empty in libraries without one (tests).
FaceTable ExportsFor(VendorLibrary library);

// Library of NVIDIA at `path`, with the contents `image`. kNone if it is ours or another.
VendorLibrary VendorLibraryAt(const char* path, const ElfImage& image);

// Fills `entries` with the library's functions. Functions in `table` are redirected there; others
// with the library's prefix return an error. Returns their number.
std::size_t ListVendorLibrary(VendorLibrary library, const ElfImage& image, const FaceTable& table,
                              Entry* entries, std::size_t capacity);

// Version of a libcufile as cuFileGetVersion returns it: 1150 for 1.15. 0 if it is unknown.
int CufileVersion(const ElfImage& image);
// Records it for ProgramsCufileVersion; 0 has no effect. Threads: one at a time.
void RememberCufile(int version);

// Records the file loaded by the program as its NCCL (see ProgramsNccl). Threads: one at a time.
void RememberNccl(const char* path);

}  // namespace cuspan::load
