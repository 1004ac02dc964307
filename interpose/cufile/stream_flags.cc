#include "interpose/cufile/stream_flags.h"

namespace cuspan::cufile {

unsigned StreamFlagTable::Of(CUstream stream) const {
  const MutexLock lock(mutex_);
  const auto known = flags_.find(stream);
  return known == flags_.end() ? 0 : known->second;
}

bool StreamFlagTable::Add(CUstream stream, unsigned flags) {
  const MutexLock lock(mutex_);
  return flags_.emplace(stream, flags).second;
}

bool StreamFlagTable::Remove(CUstream stream) {
  const MutexLock lock(mutex_);
  return flags_.erase(stream) != 0;
}

}  // namespace cuspan::cufile
