// A cache in device memory, shared by arrays of one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "include/cuspan/store.h"
#include "store/layout/geometry.h"
#include "store/library/driver.h"

namespace cuspan::store {

// Threads: any.
class Cache {
 public:
  static Result<std::shared_ptr<Cache>> Make(const cuspanCacheConfig_t& config);
  ~Cache();
  Cache(const Cache&) = delete;

  const std::shared_ptr<PrimaryContext>& context() const { return context_; }
  const CacheGeometry& geometry() const { return geometry_; }
  // Sets the cache's fields of a view.
  void Fill(cuspanArrayView_t& view) const;

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
  Mutex mutex_;
  std::set<std::pair<CUdeviceptr, std::uint64_t>> words_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::store
