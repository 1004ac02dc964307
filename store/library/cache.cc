#include "store/library/cache.h"

namespace cuspan::store {

Result<std::shared_ptr<MailboxUse>> MailboxUse::Make(const PrimaryContext& context,
                                                     std::uint8_t line_shift) {
  static std::atomic<std::uint64_t> last_number = 0;
  const Driver& driver = context.driver();
  int multiprocessors = 0;
  if (const CUresult result = driver.cuDeviceGetAttribute(
          &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context.device());
      result != CUDA_SUCCESS)
    return driver.Failure("the device's multiprocessors", result);
  const auto count = static_cast<std::uint32_t>(multiprocessors);
  CUSPAN_ASSIGN_OR_RETURN(const MailboxShape shape, PlanMailbox(count, line_shift));
  std::shared_ptr<MailboxUse> made(new MailboxUse(++last_number, count, shape));
  constexpr const char* kPurpose = "requests of kernels";
  CUSPAN_ASSIGN_OR_RETURN(
      made->tickets_,
      DeviceMemory::Allocate(driver, shape.queues * sizeof(std::uint32_t), 0, kPurpose));
  CUSPAN_ASSIGN_OR_RETURN(
      made->turns_,
      DeviceMemory::Allocate(driver, shape.entries() * sizeof(std::uint32_t), 0, kPurpose));
  return made;
}

Result<WantedService> MailboxUse::Begin() {
  for (std::uint32_t array = 0; array < arrays_.size(); ++array) {
    if (arrays_[array]) continue;
    arrays_[array] = true;
    return WantedService{number_, multiprocessors_, shape_.line_shift, array};
  }
  return Status::Exhausted("a cache has {} arrays already", arrays_.size());
}

void MailboxUse::Fill(const WantedService& service, const ServedPlaces& places,
                      cuspanArrayTables& tables) const {
  tables.array = static_cast<std::uint16_t>(service.array);
  tables.queues = shape_.queues;
  tables.depth_shift = shape_.depth_shift;
  tables.asked = reinterpret_cast<std::uint64_t*>(places.asked);
  tables.answered = reinterpret_cast<const std::uint64_t*>(places.answered);
  tables.places = reinterpret_cast<const unsigned char*>(places.places);
  tables.tickets = tickets_.as<std::uint32_t>();
  tables.turns = turns_.as<std::uint32_t>();
}

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

void Cache::Fill(cuspanArrayTables& tables) const {
  tables.slots = slots_.as<unsigned char>();
  tables.owners = owners_.as<std::uint64_t>();
  tables.hand = reinterpret_cast<std::uint32_t*>(tables.owners + geometry_.slots);
  tables.slot_count = geometry_.slots;
  tables.line_shift = geometry_.line_shift;
}

Result<std::shared_ptr<MailboxUse>> Cache::UseMailbox() {
  std::shared_ptr<MailboxUse> use = mailbox_.lock();
  if (use != nullptr) return use;
  CUSPAN_ASSIGN_OR_RETURN(use, MailboxUse::Make(*context_, geometry_.line_shift));
  mailbox_ = use;
  return use;
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
