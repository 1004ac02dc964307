#include "interpose/cufile/buffers.h"

#include "interpose/client/context_connection.h"

namespace cuspan::cufile {

bool Buffers::Add(std::uint64_t base, const Range& range) {
  const MutexLock lock(mutex_);
  return ranges_.emplace(base, range).second;
}

bool Buffers::Remove(std::uint64_t base, Range* range) {
  const MutexLock lock(mutex_);
  const auto known = ranges_.find(base);
  if (known == ranges_.end()) return false;
  *range = known->second;
  ranges_.erase(known);
  return true;
}

void Buffers::Clear() {
  const MutexLock lock(mutex_);
  ranges_.clear();
}

void Buffers::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  std::erase_if(ranges_, [number = ended.number()](const auto& entry) {
    return entry.second.connection == number;
  });
}

bool Buffers::Allows(std::uint64_t base, std::int64_t offset, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto known = ranges_.find(base);
  if (known == ranges_.end() || bytes == 0) return true;
  const std::uint64_t size = known->second.bytes;
  return offset >= 0 && bytes <= size && static_cast<std::uint64_t>(offset) <= size - bytes;
}

}  // namespace cuspan::cufile
