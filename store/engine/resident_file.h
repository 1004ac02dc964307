// A file's bytes in page-locked memory of this node, for kernels of one device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/file_bytes.h"
#include "common/mutex.h"
#include "common/status.h"
#include "store/engine/engine_driver.h"
#include "store/engine/memory_budget.h"

namespace cuspan::store {

// Ways to make a file's bytes resident: CUSPAN_FILE_RESIDENT.
enum class ResidentWay : unsigned char {
  kAuto,    // kMapped on local file systems if the driver can page-lock files; otherwise kCopied.
  kMapped,  // The file's own pages of the system's cache. No byte is copied.
  kCopied,  // Memory filled by reads.
  kOff,     // None.
};
// Way of the run.
ResidentWay ResidentWayOfRun();

// True if the file's own pages are to be page-locked, instead of a copy. kUnsupported for kOff.
Result<bool> LocksOwnPages(const EngineContext& context, const FileBytes& file, ResidentWay way);

class ResidentFile {
 public:
  // Page-locks the whole file, not empty, by `threads` threads. Waits for its pages, but not for
  // running kernels. kUnsupported: the run allows none; kExhausted: `budget` is too small, or the
  // system's limits; kInternal: the file can not be read, or somebody has set `stop`; kUnavailable:
  // the driver's errors.
  static Result<std::unique_ptr<ResidentFile>> Make(const EngineContext& context,
                                                    const FileBytes& file, std::uint64_t bytes,
                                                    ResidentWay way, unsigned threads,
                                                    MemoryBudget& budget,
                                                    const std::atomic<bool>& stop);
  // Reserves addresses for a file, not empty. Nothing of it is page-locked.
  static Result<std::unique_ptr<ResidentFile>> Map(const EngineContext& context,
                                                   const FileBytes& file, std::uint64_t bytes,
                                                   bool copied);
  // Waits for running kernels, as the driver does. Leaves the context current on the thread.
  ~ResidentFile();
  ResidentFile(const ResidentFile&) = delete;

  // Page-locks a part of the mapped file, up to its end: a multiple of pages from `offset`, each of
  // them once. The context is current on the thread. Results as of Make; also kInternal if
  // `may_lock`, unless empty, is false after the bytes were read.
  Status Lock(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes,
              MemoryBudget& budget, const std::function<bool()>& may_lock = nullptr);

  // Address for kernels, aligned to pages; of a byte that is page-locked. Readable up to the end of
  // its page.
  std::uint64_t address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  bool copied() const { return copied_; }

 private:
  ResidentFile(const EngineContext& context, std::uint64_t bytes, bool copied)
      : context_(context), bytes_(bytes), copied_(copied) {}

  Status LockAll(const FileBytes& file, unsigned threads, const std::atomic<bool>& stop);
  // One piece of the file: reads it, and page-locks it.
  Status LockPiece(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes,
                   const std::function<bool()>& may_lock = nullptr);

  const EngineContext context_;
  const std::uint64_t bytes_;
  const bool copied_;
  std::byte* memory_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t address_ = 0;  // The host's: unified addressing.
  Mutex mutex_;
  std::vector<std::byte*> locked_ CUSPAN_GUARDED_BY(mutex_);  // Pieces, by their first bytes.
  std::vector<MemoryBudget::Share> shares_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::store
