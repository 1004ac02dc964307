#include "interpose/load/vendor_nvml.h"

#include "interpose/load/exported_functions.h"

// Generated, see nvml/CMakeLists.txt; libraries of tests have none.
extern "C" {
extern const cuspan::load::NvmlExport cuspan_nvml_exports[] __attribute__((weak));
extern const std::size_t cuspan_nvml_exports_count __attribute__((weak));
}

namespace cuspan::load {
namespace {

// NVML_ERROR_NOT_SUPPORTED, whatever the arguments are.
int RefuseNvml() { return 3; }

std::uint64_t NvmlDestination(const char* name, const void* from) {
  if (!StartsWith(name, "nvml")) return 0;
  const auto& table = *static_cast<const NvmlTable*>(from);
  std::size_t low = 0;
  std::size_t high = table.count;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = CompareNames(table.entries[middle].name, name);
    if (order == 0) return reinterpret_cast<std::uint64_t>(table.entries[middle].function);
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return reinterpret_cast<std::uint64_t>(&RefuseNvml);
}

}  // namespace

NvmlTable NvmlExports() {
  if (cuspan_nvml_exports == nullptr || &cuspan_nvml_exports_count == nullptr) return {nullptr, 0};
  return {cuspan_nvml_exports, cuspan_nvml_exports_count};
}

bool IsVendorNvml(const char* path, const ElfImage& image) {
  // Ours has nothing but jumps to that table.
  return IsLibrary(path, "libnvidia-ml.so") &&
         !image.Symbols(SHT_DYNSYM).Mentions("cuspan_nvml_exports");
}

std::size_t ListVendorNvml(const ElfImage& image, const NvmlTable& table, Entry* entries,
                           std::size_t capacity) {
  return ListExportedFunctions(image, &NvmlDestination, &table, entries, capacity);
}

}  // namespace cuspan::load
