// A file for an array, read on the GPU's node: by this process, or by a proxy of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/status.h"
#include "include/cuspan/store.h"
#include "store/layout/run_functions.h"
#include "store/library/driver.h"

namespace cuspan::store {

// Threads: one at a time, with the device's context current.
class StoredFile {
 public:
  // Opens the file of an array's path or descriptor, for reading.
  static Result<std::unique_ptr<StoredFile>> Open(const std::shared_ptr<PrimaryContext>& context,
                                                  const cuspanArrayConfig_t& config);
  // Its resident bytes are given back: no kernel reads them any more.
  virtual ~StoredFile() = default;

  std::uint64_t bytes() const { return bytes_; }
  // Copies bytes at the file's start; returns their number, fewer for a short file.
  virtual Result<std::size_t> Peek(std::span<std::byte> to) = 0;
  // Page-locks all bytes on the GPU's node, once. kUnsupported: that node has not the file, or the
  // run allows no such memory.
  virtual Result<ResidentBytes> Hold() = 0;
  // Serves its lines to kernels, once. kUnsupported: the GPU's node has not the file.
  virtual Result<ServedPlaces> Serve(const WantedService& wanted) = 0;
  // Counts of lines given to kernels so far.
  virtual Result<ServedCounts> CountServed() = 0;
  // Copies `bytes` from `offset` into device memory, all or a failure.
  virtual Status Fill(CUdeviceptr to, std::uint64_t offset, std::uint64_t bytes) = 0;
  // kNotFound if the file has changed since it was opened.
  virtual Status Check() = 0;

 protected:
  explicit StoredFile(std::uint64_t bytes) : bytes_(bytes) {}

 private:
  const std::uint64_t bytes_;
};

// Functions of the run with this process; null outside of runs. Threads: any.
const RunFunctions* FunctionsOfRun();

}  // namespace cuspan::store
