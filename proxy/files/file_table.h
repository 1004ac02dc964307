// A session's files, by the client's numbers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/file_bytes.h"
#include "common/status.h"
#include "common/task_threads.h"
#include "protocol/api/file_status.h"
#include "proxy/files/counterpart.h"
#include "proxy/objects/handle_table.h"
#include "store/engine/resident_file.h"
#include "store/engine/served_array.h"

namespace cuspan::proxy {

struct OpenFile {
  std::shared_ptr<void> place;   // Counts the file until it is closed.
  std::optional<FileBytes> own;  // Nothing: the client has it.
  // A file of this node that may be read in place of the client's; null: none.
  std::atomic<std::shared_ptr<Counterpart>> counterpart = nullptr;
  // Its bytes for kernels, or null. Threads: that of ResidentFiles.
  std::shared_ptr<store::ResidentFile> resident = nullptr;
  // Its lines for kernels that ask for them; null: not served.
  std::atomic<std::shared_ptr<store::ServedArray>> served = nullptr;
};

// Threads: any.
class FileTable {
 public:
  // Protects the node's and this process's descriptors. Closed files count while copies use them.
  static constexpr std::size_t kMaxFiles = 1024;

  // Files are closed on `threads`: some file systems write their last bytes then.
  explicit FileTable(std::shared_ptr<TaskThreads> threads) : threads_(std::move(threads)) {}

  // Adds a file of the program by its descriptor. kInvalidValue if the number is in use or 0;
  // kNotSupported for anything but a regular file; EMFILE for too many.
  FileStatus Share(std::uint64_t number, UniqueFd fd);
  // Adds a file with its bytes at the client.
  FileStatus AddOfClient(std::uint64_t number) { return Add(number, std::nullopt); }
  // kInvalid if there is no such file.
  Result<std::shared_ptr<OpenFile>> Get(std::uint64_t number) const { return files_.Get(number); }
  // Calls `closed` when it is closed, or would be, but for copies using it. Threads: a file thread.
  Status Close(std::uint64_t number, std::function<void()> closed);

 private:
  FileStatus Add(std::uint64_t number, std::optional<FileBytes> own);

  const std::shared_ptr<TaskThreads> threads_;
  const std::shared_ptr<std::atomic<std::size_t>> count_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  HandleTable<OpenFile> files_{"file"};
};

}  // namespace cuspan::proxy
