#include "interpose/client/reductions.h"

namespace cuspan {

std::uint32_t Reductions::Add(int type) {
  const MutexLock lock(mutex_);
  types_[next_] = type;
  return next_++;
}

bool Reductions::Remove(std::uint32_t number) {
  const MutexLock lock(mutex_);
  return types_.erase(number) != 0;
}

bool Reductions::Has(int number, int type) const {
  if (number < nccl::kReduceOps) return number >= 0;
  const MutexLock lock(mutex_);
  const auto known = types_.find(static_cast<std::uint32_t>(number));
  return known != types_.end() && known->second == type;
}

void Reductions::Capture(std::uint32_t number) {
  const MutexLock lock(mutex_);
  captured_.insert(number);
}

bool Reductions::IsCaptured(std::uint32_t number) const {
  const MutexLock lock(mutex_);
  return captured_.contains(number);
}

}  // namespace cuspan
