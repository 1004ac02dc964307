#include "interpose/load/exports.h"

#include "interpose/load/elf_image.h"

// Generated, see generate_exports.py.
extern "C" {
extern const cuspan::load::Export cuspan_runtime_exports[];
extern const std::size_t cuspan_runtime_exports_count;
}

namespace cuspan::load {

std::size_t ExportTable::Find(const char* name) const {
  std::size_t low = 0;
  std::size_t high = count;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = CompareNames(entries[middle].name, name);
    if (order == 0) return middle;
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return kNone;
}

ExportTable RuntimeExports() { return {cuspan_runtime_exports, cuspan_runtime_exports_count}; }

ExportTable ReplacementsFor(const char* shared_name) {
  // Tools that gather a program's libraries put a hash behind the name.
  if (StartsWith(shared_name, "libcudart.so.") || StartsWith(shared_name, "libcudart-")) {
    return RuntimeExports();
  }
  return {nullptr, 0};
}

}  // namespace cuspan::load
