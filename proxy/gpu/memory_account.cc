#include "proxy/gpu/memory_account.h"

#include <algorithm>

namespace cuspan::proxy {

CUresult MemoryAccount::Take(std::uint64_t bytes, Taken* taken, bool fixed) {
  if (counted_ == nullptr) return CUDA_SUCCESS;
  if (!counted_->Take(bytes, fixed)) return CUDA_ERROR_OUT_OF_MEMORY;
  *taken = Taken(new std::uint64_t(bytes), [this, fixed](const std::uint64_t* own) {
    counted_->Give(*own, fixed);
    delete own;
  });
  return CUDA_SUCCESS;
}

void MemoryAccount::Narrow(std::size_t* free, std::size_t* total) const {
  if (counted_ == nullptr) return;
  const MemoryRoom room = counted_->Query();
  if (room.cap != 0) *total = std::min<std::uint64_t>(*total, room.cap);
  *free = std::min<std::uint64_t>(room.made ? *total : *free, room.left);
}

}  // namespace cuspan::proxy
