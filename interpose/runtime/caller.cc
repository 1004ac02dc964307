#include "interpose/runtime/caller.h"

#include <link.h>

#include <cstdint>
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

int NeededRelease(const void* object, std::uintptr_t base) {
  const auto* const first = static_cast<const ElfW(Dyn)*>(object);
  const char* names = nullptr;
  for (const auto* entry = first; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_STRTAB) continue;
    // The loader has turned it into an address, except in objects that it does not own.
    const std::uintptr_t at = entry->d_un.d_ptr;
    names = reinterpret_cast<const char*>(at < base ? base + at : at);
  }
  if (names == nullptr) return 13;
  for (const auto* entry = first; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* const name = names + entry->d_un.d_val;
    if (std::strcmp(name, "libcudart.so.12") == 0) return 12;
    if (std::strcmp(name, "libcudart.so.11.0") == 0) return 11;
  }
  return 13;
}

}  // namespace

int CallerRelease(const void* address) {
  if (const int linked = LinkedRuntimeRelease(address); linked != 0) return linked;
  Search search{reinterpret_cast<std::uintptr_t>(address)};
  if (::dl_iterate_phdr(FindObject, &search) == 0 || search.object == nullptr) return 13;
  return NeededRelease(search.object, search.base);
}

}  // namespace cuspan
