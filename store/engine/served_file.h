// A file read line by line when kernels ask for it; often used parts become resident.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/file_bytes.h"
#include "common/status.h"
#include "store/engine/extents.h"

namespace cuspan::store {

// Threads: any.
class ServedFile {
 public:
  // Opens the file again. `may_read`, unless empty: true after a read if kernels may have the
  // bytes. `line`: of the arrays. kInternal: it can not be opened.
  static Result<std::unique_ptr<ServedFile>> Open(const FileBytes& file, std::uint64_t bytes,
                                                  std::uint64_t line,
                                                  std::function<bool()> may_read,
                                                  const ExtentTerms& terms);
  ServedFile(const ServedFile&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  Extents& extents() { return extents_; }

  // Reads bytes without blocking, all or nothing. False also for file systems that can not do it.
  bool ReadCached(std::span<std::byte> to, std::uint64_t offset) const {
    return file_.ReadCached(to, offset);
  }
  // Reads bytes. May block for long.
  FileOutcome Read(std::span<std::byte> to, std::uint64_t offset) const {
    return file_.Read(to, offset);
  }
  int fd() const { return file_.fd(); }
  // True if MayRead has to be asked after each read, before kernels see the bytes.
  bool guarded() const { return may_read_ != nullptr; }
  // False from the first time that `may_read` was.
  bool MayRead() const {
    if (!guarded()) return true;
    if (!refused_.load(std::memory_order_relaxed) && !may_read_()) refused_ = true;
    return !refused_;
  }

  // Reads of lines answered with bytes, and their bytes.
  struct Counts {
    std::uint64_t reads = 0;
    std::uint64_t bytes = 0;
  };
  void Count(std::uint64_t bytes);
  Counts counts() const;

 private:
  ServedFile(FileBytes file, std::uint64_t bytes, std::uint64_t line,
             std::function<bool()> may_read, const ExtentTerms& terms);

  const FileBytes file_;
  const std::uint64_t bytes_;
  const std::function<bool()> may_read_;
  mutable std::atomic<bool> refused_ = false;
  Extents extents_;
  // Counts of some of the threads: with one for all, they wait for each other's cache line.
  struct alignas(64) CountsOfThreads {
    std::atomic<std::uint64_t> reads = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };
  std::array<CountsOfThreads, 16> counts_;
};

}  // namespace cuspan::store
