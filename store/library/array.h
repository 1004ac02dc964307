// An array in a file, opened for kernels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/status.h"
#include "include/cuspan/store.h"
#include "store/layout/geometry.h"
#include "store/layout/run_functions.h"
#include "store/library/cache.h"
#include "store/library/stored_file.h"

namespace cuspan::store {

// Threads: one at a time.
class Array {
 public:
  static Result<std::unique_ptr<Array>> Open(const cuspanArrayConfig_t& config,
                                             std::shared_ptr<Cache> cache);
  ~Array();
  Array(const Array&) = delete;

  // Waits for all kernels of the device. kRefused while a stream is in capture: it stays open.
  Status Close();
  const cuspanArrayView_t& view() const { return view_; }
  Status Check() const;
  Result<cuspanArrayStatistics_t> GetStatistics() const;

 private:
  explicit Array(std::shared_ptr<Cache> cache) : cache_(std::move(cache)) { cache_->BeginUse(); }

  Status OpenIn(const cuspanArrayConfig_t& config);
  Result<ArrayShape> Shape(const cuspanArrayConfig_t& config);
  Status FillDevice(std::uint32_t element);
  Status HoldOnHost();
  Status ServeFromFile();
  // kInvalid: the words of all lines would take too much device memory.
  Status CheckTableFits() const;
  Status MakeTables();
  // Copies the tables to the device. Then kernels may use the view.
  Status CopyTables();
  Result<std::array<std::uint64_t, CUSPAN_REPORT_WORDS>> ReadReport() const;
  std::array<DeviceMemory*, 5> Memories();
  void EndService();
  const Driver& driver() const { return cache_->context()->driver(); }

  const std::shared_ptr<Cache> cache_;
  bool open_ = true;
  bool seen_ = false;  // Kernels may have it.
  std::unique_ptr<StoredFile> file_;
  cuspanArrayView_t view_ = {};
  cuspanArrayTables tables_ = {};
  std::uint8_t backing_ = CUSPAN_BACKING_FILE;
  ResidentBytes resident_;
  DeviceMemory report_;
  std::shared_ptr<MailboxUse> mailbox_;  // Null: it is not served.
  WantedService service_;
  DeviceMemory tables_copy_;
  DeviceMemory words_;
  DeviceMemory extents_;
  DeviceMemory all_;
};

}  // namespace cuspan::store
