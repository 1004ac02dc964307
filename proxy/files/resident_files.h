// Files of this node in page-locked memory, for kernels: `cuspan/store.h`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/same_file.h"
#include "common/status.h"
#include "proxy/files/file_table.h"
#include "proxy/files/locking_threads.h"

namespace cuspan::proxy {

// A file's bytes on this node: the session's own file, or its proven counterpart.
class FileHere {
 public:
  // kNotSupported: this node has none.
  static FileStatus Of(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere>* here);

  const FileBytes& bytes() const { return counterpart_ ? counterpart_->bytes() : *file_->own; }
  // Null: it is the session's own file.
  const std::shared_ptr<Counterpart>& counterpart() const { return counterpart_; }
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
  ResidentFiles(const store::EngineContext& context, std::shared_ptr<LockingThreads> threads)
      : context_(context), threads_(std::move(threads)) {}

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
  Result<Held> Lock(OpenFile& file, const FileHere& here) const;

  const store::EngineContext context_;
  const std::shared_ptr<LockingThreads> threads_;
};

}  // namespace cuspan::proxy
