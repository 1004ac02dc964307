// A file's bytes in page-locked memory of this node, for kernels of one device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/file_bytes.h"
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
  // Waits for running kernels, as the driver does. Leaves the context current on the thread.
  ~ResidentFile();
  ResidentFile(const ResidentFile&) = delete;

  // Address for kernels, aligned to pages. Readable up to the end of the last page.
  std::uint64_t address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  bool copied() const { return copied_; }

 private:
  ResidentFile(const EngineContext& context, std::uint64_t bytes, bool copied,
               MemoryBudget::Share share)
      : context_(context), bytes_(bytes), copied_(copied), share_(std::move(share)) {}

  Status Map(const FileBytes& file);
  Status Lock(const FileBytes& file, unsigned threads, const std::atomic<bool>& stop);
  // One piece of the file: reads it, and page-locks it.
  Status LockPiece(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes);

  const EngineContext context_;
  const std::uint64_t bytes_;
  const bool copied_;
  const MemoryBudget::Share share_;
  std::byte* memory_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t address_ = 0;
  std::vector<char> locked_;  // True for each piece that is page-locked.
};

}  // namespace cuspan::store
