#include "interpose/client/memory/memory_advice.h"

#include <iterator>

namespace cuspan {

void MemoryAdvice::Split(std::uint64_t address) {
  const auto holds = std::prev(entries_.upper_bound(address));
  if (holds->first != address) entries_.emplace(address, holds->second);
}

template <typename Use>
void MemoryAdvice::ForRange(std::uint64_t address, std::uint64_t bytes, Use&& use) {
  Split(address);
  Split(address + bytes);
  for (auto at = entries_.find(address); at->first != address + bytes; ++at) use(at->second);
}

void MemoryAdvice::Advise(std::uint64_t address, std::uint64_t bytes, CUmem_advise advice,
                          const Location& location) {
  const int device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
  const MutexLock lock(mutex_);
  ForRange(address, bytes, [&](Entry& entry) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        entry.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        entry.preferred = location;
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        entry.preferred = {};
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
        entry.accessed_by.insert(device);
        break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        entry.accessed_by.erase(device);
        break;
      default:
        break;
    }
  });
}

void MemoryAdvice::Prefetched(std::uint64_t address, std::uint64_t bytes,
                              const Location& location) {
  const MutexLock lock(mutex_);
  ForRange(address, bytes, [&](Entry& entry) { entry.prefetched = location; });
}

MemoryAdvice::Entry MemoryAdvice::Common(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  auto at = std::prev(entries_.upper_bound(address));
  Entry common = at->second;
  for (++at; at != entries_.end() && at->first < address + bytes; ++at) {
    const Entry& other = at->second;
    common.read_mostly = common.read_mostly && other.read_mostly;
    if (common.preferred != other.preferred) common.preferred = {};
    if (common.prefetched != other.prefetched) common.prefetched = {};
    std::erase_if(common.accessed_by,
                  [&](int device) { return !other.accessed_by.contains(device); });
  }
  return common;
}

void MemoryAdvice::Forget(std::uint64_t address, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ForRange(address, bytes, [](Entry& entry) { entry = {}; });
  entries_.erase(std::next(entries_.find(address)), entries_.find(address + bytes));
}

}  // namespace cuspan
