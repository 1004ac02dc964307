// A file whose lines are read when kernels ask for them; often used parts become resident.
#pragma once

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
  // Opens the file again. `may_read`, unless empty, tells after each read if its bytes may be given
  // to kernels. `line`: of the arrays. kInternal: it can not be opened.
  static Result<std::unique_ptr<ServedFile>> Open(const FileBytes& file, std::uint64_t bytes,
                                                  std::uint64_t line,
                                                  std::function<bool()> may_read,
                                                  const ExtentTerms& terms);
  ServedFile(const ServedFile&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t line() const { return line_; }
  Extents& extents() { return extents_; }

  // Reads bytes without blocking, all or nothing. False also for file systems that can not do it.
  bool ReadCached(std::span<std::byte> to, std::uint64_t offset) const {
    return file_.ReadCached(to, offset);
  }
  // Reads bytes. May block for long.
  FileOutcome Read(std::span<std::byte> to, std::uint64_t offset) const {
    return file_.Read(to, offset);
  }
  // The descriptor for reads of one whole line: without the page cache if the file system can. The
  // memory is aligned as Mailbox::PlaceOf.
  int fd_for_lines() const {
    return direct_works_.load(std::memory_order_relaxed) ? direct_.get() : file_.fd();
  }
  // A read by fd_for_lines has failed: from now on it is that of the page cache.
  void DirectFails() { direct_works_.store(false, std::memory_order_relaxed); }
  bool MayRead() const { return !may_read_ || may_read_(); }

  // Reads of lines answered with bytes, and their bytes.
  struct Counts {
    std::uint64_t reads = 0;
    std::uint64_t bytes = 0;
  };
  void Count(std::uint64_t bytes) {
    reads_.fetch_add(1, std::memory_order_relaxed);
    read_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  Counts counts() const { return {reads_, read_bytes_}; }

  // Reads under way.
  std::atomic<std::uint32_t>& pending() { return pending_; }

 private:
  ServedFile(FileBytes file, UniqueFd direct, std::uint64_t bytes, std::uint64_t line,
             std::function<bool()> may_read, const ExtentTerms& terms);

  const FileBytes file_;   // Through the page cache.
  const UniqueFd direct_;  // Without it; may be invalid.
  const std::uint64_t bytes_;
  const std::uint64_t line_;
  const std::function<bool()> may_read_;
  Extents extents_;
  std::atomic<bool> direct_works_;
  alignas(64) std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> read_bytes_ = 0;
  std::atomic<std::uint32_t> pending_ = 0;
};

}  // namespace cuspan::store
