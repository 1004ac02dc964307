// The CUDA runtime functions that this library exports, with the addresses of
// its own definitions. The table is generated from runtime_exports.txt; its
// names are in strcmp's order. Constant: any thread may read it, at any time.
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
  // The index of `name`, or kNone.
  std::size_t Find(const char* name) const;
};

// The table of this library.
ExportTable RuntimeExports();

// The functions that answer in place of those that a library exports, by the name under which
// others need it (DT_SONAME). Empty: the library is left as it is. A program may reach such a
// library past the names of ours, by a path of its own or by the loader's handle.
ExportTable ReplacementsFor(const char* shared_name);

}  // namespace cuspan::load
