#include "store/library/cache.h"

namespace cuspan::store {

Result<std::shared_ptr<Cache>> Cache::Make(const cuspanCacheConfig_t& config) {
  CUSPAN_ASSIGN_OR_RETURN(const CacheGeometry geometry, PlanCache(config.bytes, config.line));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<PrimaryContext> context,
                          PrimaryContext::Of(config.device));
  const CurrentContext current(*context);
  CUSPAN_RETURN_IF_ERROR(current.status());
  std::shared_ptr<Cache> cache(new Cache(std::move(context), geometry));
  const Driver& driver = cache->context_->driver();
  // Zero, not undefined: a defect must not show bytes of other programs.
  CUSPAN_ASSIGN_OR_RETURN(cache->slots_,
                          DeviceMemory::Allocate(driver, geometry.bytes(), 0, "the cache's lines"));
  CUSPAN_ASSIGN_OR_RETURN(
      cache->owners_,
      DeviceMemory::Allocate(driver, (std::uint64_t{geometry.slots} + 1) * sizeof(std::uint64_t), 0,
                             "the words of the cache's lines"));
  // Kernels in other streams do not wait for the zeros.
  if (const CUresult result = driver.cuStreamSynchronize(nullptr); result != CUDA_SUCCESS)
    return driver.Failure("the cache's lines", result);
  return cache;
}

Cache::~Cache() {
  const CurrentContext current(*context_);
  // Memory of a context that was reset is gone.
  if (!current.status().ok()) {
    slots_.Release();
    owners_.Release();
  }
  slots_ = DeviceMemory();
  owners_ = DeviceMemory();
}

void Cache::Fill(cuspanArrayView_t& view) const {
  view.slots_ = slots_.as<unsigned char>();
  view.owners_ = owners_.as<std::uint64_t>();
  view.hand_ = reinterpret_cast<std::uint32_t*>(view.owners_ + geometry_.slots);
  view.slot_count_ = geometry_.slots;
}

void Cache::Add(const DeviceMemory& words) {
  const MutexLock lock(mutex_);
  words_.emplace(words.address(), words.bytes());
}

Status Cache::Remove(const DeviceMemory& words) {
  const MutexLock lock(mutex_);
  const Driver& driver = context_->driver();
  CUresult result = driver.cuCtxSynchronize();
  // Slots of the removed array would lead to its words, which are gone. The others' are dropped
  // with them: to find them would need all owners in this process.
  if (result == CUDA_SUCCESS) result = driver.cuMemsetD8(owners_.address(), 0, owners_.bytes());
  for (const auto& [address, bytes] : words_)
    if (result == CUDA_SUCCESS) result = driver.cuMemsetD8(address, 0, bytes);
  // Kernels in other streams do not wait for them.
  if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(nullptr);
  if (OfCapture(result))
    return Status::Refused("a stream is in capture: end it before an array is closed");
  words_.erase({words.address(), words.bytes()});
  return result == CUDA_SUCCESS ? Status::Ok() : driver.Failure("emptying a cache", result);
}

void Cache::Forget(const DeviceMemory& words) {
  const MutexLock lock(mutex_);
  words_.erase({words.address(), words.bytes()});
}

}  // namespace cuspan::store
