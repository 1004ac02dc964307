#include "proxy/objects/variable_ranges.h"

#include <iterator>

namespace cuspan::proxy {

void VariableRanges::Add(std::uint64_t module, std::uint64_t address, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ranges_[address] = {bytes, module};
}

void VariableRanges::RemoveModule(std::uint64_t module) {
  const MutexLock lock(mutex_);
  std::erase_if(ranges_, [module](const auto& range) { return range.second.module == module; });
}

bool VariableRanges::Contains(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto& [start, range] = *std::prev(after);
  return bytes <= range.bytes && address - start <= range.bytes - bytes;
}

}  // namespace cuspan::proxy
