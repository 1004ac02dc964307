#include "interpose/load/vendor_library.h"

#include <atomic>

#include "interpose/load/exported_functions.h"
#include "interpose/load/load.h"

// Generated (see CuspanFaceLibrary.cmake). Libraries of tests have none.
extern "C" {
extern const cuspan::load::FaceExport cuspan_nvml_exports[] __attribute__((weak));
extern const std::size_t cuspan_nvml_exports_count __attribute__((weak));
extern const cuspan::load::FaceExport cuspan_nccl_exports[] __attribute__((weak));
extern const std::size_t cuspan_nccl_exports_count __attribute__((weak));
}

namespace cuspan::load {
namespace {

// NVML_ERROR_NOT_SUPPORTED and ncclInvalidUsage, for any arguments.
int RefuseNvml() { return 3; }
int RefuseNccl() { return 5; }

std::uint64_t Destination(const char* name, const FaceTable& table, int (*refuse)()) {
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
  return reinterpret_cast<std::uint64_t>(refuse);
}

std::uint64_t NvmlDestination(const char* name, const void* from) {
  if (!StartsWith(name, "nvml")) return 0;
  return Destination(name, *static_cast<const FaceTable*>(from), &RefuseNvml);
}

std::uint64_t NcclDestination(const char* name, const void* from) {
  if (!StartsWith(name, "nccl") && !StartsWith(name, "pnccl")) return 0;
  return Destination(name, *static_cast<const FaceTable*>(from), &RefuseNccl);
}

constexpr std::size_t kMaxPath = 4096;  // Same as PATH_MAX.
constinit char nccl_path[kMaxPath] = "";
constinit std::atomic<bool> nccl_known{false};

}  // namespace

FaceTable ExportsFor(VendorLibrary library) {
  if (library == VendorLibrary::kNvml && cuspan_nvml_exports != nullptr &&
      &cuspan_nvml_exports_count != nullptr)
    return {cuspan_nvml_exports, cuspan_nvml_exports_count};
  if (library == VendorLibrary::kNccl && cuspan_nccl_exports != nullptr &&
      &cuspan_nccl_exports_count != nullptr)
    return {cuspan_nccl_exports, cuspan_nccl_exports_count};
  return {nullptr, 0};
}

VendorLibrary VendorLibraryAt(const char* path, const ElfImage& image) {
  // Our libraries consist of jumps to these tables.
  if (IsLibrary(path, "libnvidia-ml.so") &&
      !image.Symbols(SHT_DYNSYM).Mentions("cuspan_nvml_exports"))
    return VendorLibrary::kNvml;
  if (IsLibrary(path, "libnccl.so") && !image.Symbols(SHT_DYNSYM).Mentions("cuspan_nccl_exports"))
    return VendorLibrary::kNccl;
  return VendorLibrary::kNone;
}

std::size_t ListVendorLibrary(VendorLibrary library, const ElfImage& image, const FaceTable& table,
                              Entry* entries, std::size_t capacity) {
  switch (library) {
    case VendorLibrary::kNvml:
      return ListExportedFunctions(image, &NvmlDestination, &table, entries, capacity);
    case VendorLibrary::kNccl:
      return ListExportedFunctions(image, &NcclDestination, &table, entries, capacity);
    case VendorLibrary::kNone:
      break;
  }
  return 0;
}

void RememberNccl(const char* path) {
  if (nccl_known.load(std::memory_order_relaxed)) return;
  std::size_t size = 0;
  while (path[size] != 0) ++size;
  if (size >= kMaxPath) return;
  for (std::size_t i = 0; i < size; ++i) nccl_path[i] = path[i];
  nccl_known.store(true, std::memory_order_release);
}

}  // namespace cuspan::load

namespace cuspan {

const char* ProgramsNccl() {
  return load::nccl_known.load(std::memory_order_acquire) ? load::nccl_path : "";
}

}  // namespace cuspan
