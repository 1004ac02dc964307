// Files of the program, read into device memory and written from it in stream order.
//
// A proxy of this node gets the descriptor and does it alone. For other devices the proxy may have
// the same file on its node, and reads that. Otherwise it asks for the bytes (FileWanted), and this
// process reads or writes its own file.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/file_bytes.h"
#include "common/mutex.h"
#include "common/same_file.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"
#include "interpose/client/stream_target.h"
#include "protocol/api/file_status.h"
#include "store/layout/run_functions.h"

namespace cuspan {

// A part of a file, and device memory.
struct FileExtent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // Offset in the file; offset + bytes is at most 2^63 - 1.
};

// Called after the outcome of a read or write is stored, or with the sticky error of a lost device.
// Must neither block nor use the connection. Threads: any.
using FileEnd = std::function<void(CUresult)>;

// Another descriptor of an open file, with a number that programs do not expect to get. Invalid,
// with errno, if there is none left.
UniqueFd AnotherDescriptor(int fd);

// A thread for system calls that may block. It may outlive this object: its last task may own it.
class FileThread {
 public:
  FileThread() = default;
  // Drops tasks that have not begun.
  ~FileThread();
  FileThread(const FileThread&) = delete;

  // Starts it at the first call. False if the system allows no further thread. Threads: any.
  bool Start();
  // Start has succeeded. Threads: any.
  void Run(std::function<void()> task);

 private:
  struct State {
    Mutex mutex;
    std::condition_variable arrived;
    std::deque<std::function<void()>> tasks CUSPAN_GUARDED_BY(mutex);
    bool started CUSPAN_GUARDED_BY(mutex) = false;
    bool ending CUSPAN_GUARDED_BY(mutex) = false;
  };
  static void Loop(State& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Threads of one connection. A read waits for staging slots, and other copies may have them for as
// long as kernels run: writes must not wait for it, nor other devices.
struct FileThreads {
  FileThread reads;
  FileThread writes;
  FileThread states;  // Asks for states of files.
};

// A file opened for one context. Constant, except for its end.
struct ProgramFile {
  std::uint64_t handle = 0;
  std::shared_ptr<ContextConnection> connection;
  FileBytes::Access access;
  FileBytes bytes;                       // Without a descriptor if the proxy has it.
  bool at_proxy = false;                 // The proxy has the descriptor, too.
  std::shared_ptr<FileThreads> threads;  // Null if it has.
  // The proxy has a counterpart of the file in this state: a file of its node with the same bytes.
  std::optional<FileState> same_there;
  // States of the file at SizeOfFile, here and on the GPU's node.
  struct States {
    std::optional<FileState> here;
    std::optional<FileState> there;
    bool operator==(const States&) const = default;
  };
  mutable Mutex remembering;
  mutable std::optional<States> remembered CUSPAN_GUARDED_BY(remembering);
  // Held shared while a read or write is posted.
  mutable SharedMutex closing;
  mutable bool closed CUSPAN_GUARDED_BY(closing) = false;
};

// Threads: any. A table of the session.
class Files final : public ContextTable, public FileListener {
 public:
  // Opens a regular file by a descriptor of the program. The program may close it: the system's
  // open file is kept. The result is not successful, with `error` an errno, if the system refuses.
  FileStatus Open(const std::shared_ptr<ContextConnection>& connection, int fd,
                  std::shared_ptr<const ProgramFile>* file);
  // Opens a file of the device's node, by an absolute path. `access`: of FileAccess. kSuccess with
  // a null `*file`: the run has no root for it. Other results as of the op FileOpenNamed.
  FileStatus OpenThere(const std::shared_ptr<ContextConnection>& connection,
                       const std::string& path, std::uint32_t access,
                       std::shared_ptr<const ProgramFile>* file);
  // Null for unknown and closed ones.
  std::shared_ptr<const ProgramFile> Find(std::uint64_t handle) const;
  // Reads and writes posted before are executed. False if it is unknown.
  bool Close(std::uint64_t handle);

  // Posts a read or a write in the order of `there`, a stream of the file's context. `*status` gets
  // the outcome before the stream has passed it, unless the device is lost. After a failure nothing
  // was posted, and `at_end` is not called; CUDA_ERROR_INVALID_HANDLE: another thread has closed
  // the file. `at_end` may be null.
  CUresult Read(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there,
                const FileExtent& extent, FileStatus* status, FileEnd at_end = nullptr);
  CUresult Write(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there,
                 const FileExtent& extent, FileStatus* status, FileEnd at_end = nullptr);

  // A part of a file, and the file's state here and on the GPU's node, if it is there.
  struct Peeked {
    std::optional<FileState> here;
    std::optional<FileState> there;
    std::vector<std::byte> bytes;  // Fewer than wanted: the end of the file.
    std::uint64_t size() const { return there ? there->bytes : here ? here->bytes : 0; }
  };
  // At most kMaxInlineBytes. kInvalidFile: the file on the GPU's node has changed.
  static FileStatus Peek(const ProgramFile& file, std::uint64_t offset, std::uint32_t bytes,
                         Peeked* peeked);
  // A file in page-locked memory of the GPU's node, until it is closed.
  struct Held {
    std::uint64_t address = 0;  // Address in kernels.
    FileState state;            // Before.
    bool copied = false;
    std::string problem;  // The reason of a failure.
  };
  static FileStatus Hold(const ProgramFile& file, Held* held);
  // A file with lines read on the GPU's node when kernels ask for them, until it is closed.
  struct Served {
    std::uint64_t asked = 0;  // Addresses in kernels of the mailbox's parts.
    std::uint64_t answered = 0;
    std::uint64_t places = 0;
    FileState state;      // Before.
    std::string problem;  // The reason of a failure.
  };
  static FileStatus Serve(const ProgramFile& file, const store::WantedService& wanted,
                          Served* served);
  static FileStatus CountServed(const ProgramFile& file, store::ServedCounts* counts);

  bool OnWanted(const std::shared_ptr<ContextConnection>& connection,
                const FileWanted& wanted) override;
  void Forget(const ContextConnection& ended) override;

 private:
  // A transfer of a connection, by its number.
  using TransferKey = std::pair<std::uint64_t, std::uint64_t>;
  // A read or write of a file of this process, until its outcome has arrived. The file may be
  // closed.
  struct Pending {
    std::shared_ptr<const ProgramFile> file;
    FileExtent extent;
    bool awaits_request = false;  // A read, until the proxy has asked for its bytes, if it does.
    bool asked_for_counterpart = false;
  };

  // Passes the descriptor to the proxy. kNotSupported if this is not possible; kSystem if no proxy
  // may have it.
  static FileStatus Share(const ContextConnection& connection, int fd, std::uint64_t handle);
  // Null if the system allows no further threads.
  std::shared_ptr<FileThreads> ThreadsOf(const ContextConnection& connection);
  // Posts it, with a transfer for its outcome.
  template <typename Op>
  CUresult Post(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there, Op& op,
                const FileExtent& extent, FileStatus* status, FileEnd at_end);
  // Makes it known.
  FileStatus Add(std::shared_ptr<ProgramFile> made, std::shared_ptr<const ProgramFile>* file);
  void EndPending(const TransferKey& key);

  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const ProgramFile>> files_
      CUSPAN_GUARDED_BY(mutex_);
  std::map<TransferKey, Pending> pending_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::shared_ptr<FileThreads>> threads_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
