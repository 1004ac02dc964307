#include "interpose/runtime/caller.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "interpose/load/load.h"

namespace cuspan {
namespace {

struct Search {
  std::uintptr_t address;
  const void* object = nullptr;  // Its dynamic section.
  std::uintptr_t base = 0;
};

int FindObject(dl_phdr_info* info, std::size_t /*bytes*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  bool holds = false;
  const void* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.address - start < header.p_memsz) holds = true;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const void*>(start);
  }
  if (!holds) return 0;
  search.object = dynamic;
  search.base = info->dlpi_addr;
  return 1;
}

// 0 if it is not a file of the runtime.
int ReleaseOfFile(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  if (std::strncmp(name, "libcudart.so.", 13) != 0) return 0;
  switch (std::atoi(name + 13)) {
    case 11:
      return 11;
    case 12:
      return 12;
    case 13:
      return 13;
    default:
      return 0;
  }
}

// 0 if it does not import a runtime.
int NeededRelease(const void* object, std::uintptr_t base) {
  const auto* const first = static_cast<const ElfW(Dyn)*>(object);
  const char* names = nullptr;
  for (const auto* entry = first; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_STRTAB) continue;
    // The loader has relocated this value, except in objects not owned by it.
    const std::uintptr_t at = entry->d_un.d_ptr;
    names = reinterpret_cast<const char*>(at < base ? base + at : at);
  }
  if (names == nullptr) return 0;
  for (const auto* entry = first; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    if (const int release = ReleaseOfFile(names + entry->d_un.d_val); release != 0) return release;
  }
  return 0;
}

// The loader's private record of an object, since glibc 2.3. The list of names used to load the
// object follows the public part.
struct ObjectNames {
  const char* name;
  const ObjectNames* next;
};
struct ObjectRecord {
  link_map shown;
  const void* real;  // The record itself, except in copies by dlmopen.
  long space;
  const ObjectNames* names;
};

// Bit mask of the releases used as names to load this library. It is one file under all names.
unsigned ReleasesOfThisLibrary() {
  Dl_info ignored;
  void* map = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&ReleasesOfThisLibrary), &ignored, &map,
                RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return 0;
  const auto* const record = static_cast<const ObjectRecord*>(map);
  if (record->real != record || record->space != 0) return 0;
  unsigned releases = 0;
  for (const ObjectNames* each = record->names; each != nullptr; each = each->next)
    releases |= 1U << static_cast<unsigned>(ReleaseOfFile(each->name));
  return releases;
}

int AddRelease(dl_phdr_info* info, std::size_t /*bytes*/, void* releases) {
  *static_cast<unsigned*>(releases) |= 1U << static_cast<unsigned>(ReleaseOfFile(info->dlpi_name));
  return 0;
}

// Release of the runtime for callers using dlsym: the only release with a libcudart in the process.
// 13 if there are several, or none.
int OpenedRelease() {
  unsigned releases = ReleasesOfThisLibrary();
  ::dl_iterate_phdr(AddRelease, &releases);
  releases &= ~1U;
  if (releases == 1U << 11U) return 11;
  return releases == 1U << 12U ? 12 : 13;
}

}  // namespace

int CallerRelease(const void* address) {
  if (const int linked = LinkedRuntimeRelease(address); linked != 0) return linked;
  Search search{reinterpret_cast<std::uintptr_t>(address)};
  const bool found = ::dl_iterate_phdr(FindObject, &search) != 0 && search.object != nullptr;
  const int needed = found ? NeededRelease(search.object, search.base) : 0;
  return needed != 0 ? needed : OpenedRelease();
}

}  // namespace cuspan
