// A cache in device memory, shared by arrays of one device.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "include/cuspan/store.h"
#include "store/layout/geometry.h"
#include "store/layout/mailbox_words.h"
#include "store/layout/run_functions.h"
#include "store/library/driver.h"

namespace cuspan::store {

// A mailbox for kernels of a cache's device (store_tables.h), as long as arrays of the cache are
// served. Threads: one at a time, with the device's context current.
class MailboxUse {
 public:
  // Queues for the device, places for lines of the cache.
  static Result<std::shared_ptr<MailboxUse>> Make(const PrimaryContext& context,
                                                  std::uint8_t line_shift);

  // Begins the service of an array. kExhausted: it has too many arrays.
  Result<WantedService> Begin();
  void End(const WantedService& service) { arrays_[service.array] = false; }

  // Sets the mailbox's fields.
  void Fill(const WantedService& service, const ServedPlaces& places,
            cuspanArrayTables& tables) const;
  std::uint64_t device_bytes() const { return tickets_.bytes() + turns_.bytes(); }
  // Forgets device memory: its context has ended.
  void Release() {
    tickets_.Release();
    turns_.Release();
  }

 private:
  MailboxUse(std::uint64_t number, std::uint32_t multiprocessors, const MailboxShape& shape)
      : number_(number), multiprocessors_(multiprocessors), shape_(shape) {}

  const std::uint64_t number_;  // No other mailbox of this process has it.
  const std::uint32_t multiprocessors_;
  const MailboxShape shape_;
  DeviceMemory tickets_;
  DeviceMemory turns_;
  std::bitset<CUSPAN_ASK_ARRAYS> arrays_;
};

// Threads: any.
class Cache {
 public:
  static Result<std::shared_ptr<Cache>> Make(const cuspanCacheConfig_t& config);
  ~Cache();
  Cache(const Cache&) = delete;

  const std::shared_ptr<PrimaryContext>& context() const { return context_; }
  const CacheGeometry& geometry() const { return geometry_; }
  // Sets the cache's fields.
  void Fill(cuspanArrayTables& tables) const;
  // The mailbox in use, or a new one. Threads: one at a time, as MailboxUse.
  Result<std::shared_ptr<MailboxUse>> UseMailbox();

  // Adds the words of an array's lines: all zero, in device memory until Remove.
  void Add(const DeviceMemory& words);
  // Removes them. Waits for all kernels of the device, and empties the cache. The context is
  // current. kRefused while a stream is in capture: nothing is removed.
  Status Remove(const DeviceMemory& words);
  // Removes them if no kernel has seen them.
  void Forget(const DeviceMemory& words);

  // Open arrays.
  void BeginUse() { ++users_; }
  void EndUse() { --users_; }
  bool in_use() const { return users_ != 0; }

 private:
  Cache(std::shared_ptr<PrimaryContext> context, const CacheGeometry& geometry)
      : context_(std::move(context)), geometry_(geometry) {}

  const std::shared_ptr<PrimaryContext> context_;
  const CacheGeometry geometry_;
  DeviceMemory slots_;
  DeviceMemory owners_;  // And behind them the hand.
  std::atomic<int> users_ = 0;
  std::weak_ptr<MailboxUse> mailbox_;
  Mutex mutex_;
  std::set<std::pair<CUdeviceptr, std::uint64_t>> words_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::store
