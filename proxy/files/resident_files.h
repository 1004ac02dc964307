// Files of this node in page-locked memory, for kernels: `cuspan/store.h`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/same_file.h"
#include "common/status.h"
#include "proxy/files/file_table.h"
#include "proxy/files/file_threads.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// A file's bytes on this node: the session's own file, or its proven counterpart.
class FileHere {
 public:
  // kNotSupported: this node has none.
  static FileStatus Of(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere>* here);

  const FileBytes& bytes() const { return counterpart_ ? counterpart_->bytes() : *file_->own; }
  // Nothing if it can not be read, or is a counterpart that was changed.
  std::optional<FileState> State() const;

 private:
  FileHere(std::shared_ptr<OpenFile> file, std::shared_ptr<Counterpart> counterpart)
      : file_(std::move(file)), counterpart_(std::move(counterpart)) {}

  const std::shared_ptr<OpenFile> file_;
  const std::shared_ptr<Counterpart> counterpart_;
};

// Threads: any.
class ResidentFiles {
 public:
  ResidentFiles(const Driver& driver, const Device& device);
  // End comes first. Memory still locked stays so: giving it back would wait for running kernels,
  // and the process ends.
  ~ResidentFiles();
  ResidentFiles(const ResidentFiles&) = delete;

  // The session ends: from now on memory stays locked, and files are not locked any more.
  void End() { unlocking_->ended = true; }

  // Page-locks the whole file, unless it is locked; until it is closed. Calls held(result) on any
  // thread: the file's state before, or an error as of ResidentFile::Make.
  struct Held {
    FileState state;
    std::uint64_t address = 0;
    bool copied = false;
  };
  void Hold(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere> here,
            std::function<void(const Result<Held>&)> held);

 private:
  // Shared with the locked files.
  struct Unlocking {
    FileThreads thread{1};
    std::atomic<bool> in_driver = false;  // A file is being unlocked.
    std::atomic<bool> ended = false;
  };
  Result<Held> Lock(OpenFile& file, const FileHere& here) const;

  const store::EngineContext context_;
  const std::shared_ptr<Unlocking> unlocking_ = std::make_shared<Unlocking>();
};

}  // namespace cuspan::proxy
