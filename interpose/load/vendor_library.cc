#include "interpose/load/vendor_library.h"

#include <atomic>

#include "interpose/load/exported_functions.h"
#include "interpose/load/load.h"

// Generated (see CuspanFaceLibrary.cmake). Libraries of tests have none.
extern "C" {
extern const cuspan::load::FaceExport cuspan_cufile_exports[] __attribute__((weak));
extern const std::size_t cuspan_cufile_exports_count __attribute__((weak));
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
// CU_FILE_INTERNAL_ERROR, for functions declared by no header.
long RefuseCufile() { return 5030; }

template <typename Refuse>
std::uint64_t Destination(const char* name, const FaceTable& table, Refuse* refuse) {
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

std::uint64_t CufileDestination(const char* name, const void* from) {
  if (!StartsWith(name, "cuFile")) return 0;
  return Destination(name, *static_cast<const FaceTable*>(from), &RefuseCufile);
}

// Reads a number. True if it ends with `end`; *at is behind it.
bool ReadNumber(Bytes text, char end, std::size_t* at, unsigned* number) {
  constexpr std::size_t kMaxDigits = 4;
  const std::size_t first = *at;
  *number = 0;
  while (text.Holds(*at, 1) && *at - first < kMaxDigits && text.data[*at] >= '0' &&
         text.data[*at] <= '9')
    *number = *number * 10 + (text.data[(*at)++] - '0');
  if (*at == first || !text.Holds(*at, 1) || text.data[*at] != static_cast<unsigned char>(end))
    return false;
  ++*at;
  return true;
}

// The version in a text like "1.15.1.6"; 0 if it is none.
int VersionIn(Bytes text) {
  std::size_t at = 0;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  if (!ReadNumber(text, '.', &at, &major) || !ReadNumber(text, '.', &at, &minor) ||
      !ReadNumber(text, '.', &at, &patch))
    return 0;
  return static_cast<int>(1000 * major + 10 * minor);
}

// Release of our own library's layouts, if the program brings none.
constinit std::atomic<int> cufile_version{1150};

constexpr std::size_t kMaxPath = 4096;  // Same as PATH_MAX.
constinit char nccl_path[kMaxPath] = "";
constinit std::atomic<bool> nccl_known{false};

}  // namespace

FaceTable ExportsFor(VendorLibrary library) {
  if (library == VendorLibrary::kNvml && cuspan_nvml_exports != nullptr &&
      &cuspan_nvml_exports_count != nullptr)
    return {cuspan_nvml_exports, cuspan_nvml_exports_count};
  if (library == VendorLibrary::kCufile && cuspan_cufile_exports != nullptr &&
      &cuspan_cufile_exports_count != nullptr)
    return {cuspan_cufile_exports, cuspan_cufile_exports_count};
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
  if (IsLibrary(path, "libcufile.so") &&
      !image.Symbols(SHT_DYNSYM).Mentions("cuspan_cufile_exports"))
    return VendorLibrary::kCufile;
  return VendorLibrary::kNone;
}

std::size_t ListVendorLibrary(VendorLibrary library, const ElfImage& image, const FaceTable& table,
                              Entry* entries, std::size_t capacity) {
  switch (library) {
    case VendorLibrary::kNvml:
      return ListExportedFunctions(image, &NvmlDestination, &table, entries, capacity);
    case VendorLibrary::kNccl:
      return ListExportedFunctions(image, &NcclDestination, &table, entries, capacity);
    case VendorLibrary::kCufile:
      return ListExportedFunctions(image, &CufileDestination, &table, entries, capacity);
    case VendorLibrary::kNone:
      break;
  }
  return 0;
}

int CufileVersion(const ElfImage& image) {
  const SymbolTable symbols = image.Symbols(SHT_DYNSYM);
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    if (CompareNames(symbols.Name(symbol), "cuFileGetVersion") != 0) continue;
    const Bytes code = CodeOfExported(image, "cuFileGetVersion");
    // lea register, [rip + distance]: the address of a text.
    constexpr std::size_t kSize = 7;
    for (std::size_t at = 0; code.Holds(at, kSize); ++at) {
      std::int32_t distance = 0;
      if (code.data[at] != 0x48 || code.data[at + 1] != 0x8d ||
          (code.data[at + 2] & 0xc7) != 0x05 || !code.Read(at + 3, &distance))
        continue;
      const std::uint64_t address =
          symbol.st_value + at + kSize + static_cast<std::uint64_t>(std::int64_t{distance});
      if (const int version = VersionIn(image.BytesFrom(address)); version != 0) return version;
    }
  }
  return 0;
}

void RememberCufile(int version) {
  if (version != 0) cufile_version.store(version, std::memory_order_relaxed);
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

int ProgramsCufileVersion() { return load::cufile_version.load(std::memory_order_relaxed); }

const char* ProgramsNccl() {
  return load::nccl_known.load(std::memory_order_acquire) ? load::nccl_path : "";
}

}  // namespace cuspan
