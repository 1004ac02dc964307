// NVIDIA's own libnvidia-ml.so.1, which a program that names it by its path would get in place of
// ours: it would show the GPUs of the program's node, which are not the run's.
//
// No allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>

#include "interpose/load/elf_image.h"
#include "interpose/load/patch.h"

namespace cuspan::load {

// One function of the NVML face, as generate_exports.py --versions writes it.
struct NvmlExport {
  const char* name;
  void (*function)();
  int form;
  bool absent;
};

struct NvmlTable {
  const NvmlExport* entries;  // In strcmp's order.
  std::size_t count;
};

// The table of this library; empty where it has no NVML face.
NvmlTable NvmlExports();

// Whether the image, a file of that path, is such a library, and not ours.
bool IsVendorNvml(const char* path, const ElfImage& image);

// Fills `entries` with its functions: those of `table` lead there, others of NVML refuse. Returns
// how many there are.
std::size_t ListVendorNvml(const ElfImage& image, const NvmlTable& table, Entry* entries,
                           std::size_t capacity);

}  // namespace cuspan::load
