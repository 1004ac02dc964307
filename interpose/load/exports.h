// CUDA runtime functions exported by this library, with the addresses of its own definitions. The
// table is generated from runtime_exports.txt, in the order of strcmp. Threads: any, as it is
// constant.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::load {

struct Export {
  const char* name;
  void (*function)();
};

struct ExportTable {
  const Export* entries;
  std::size_t count;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  // Index of `name`, or kNone.
  std::size_t Find(const char* name) const;
};

// Table of this library.
ExportTable RuntimeExports();

// Replacements for the functions of a library, given its DT_SONAME. Empty if the library stays
// unchanged. A program can reach the original library despite our names: by a path, or by the
// loader's handle.
ExportTable ReplacementsFor(const char* shared_name);

}  // namespace cuspan::load
