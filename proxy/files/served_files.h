// Files of this node whose lines are read when kernels ask for them: `cuspan/store.h`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/same_file.h"
#include "common/status.h"
#include "proxy/files/file_table.h"
#include "proxy/files/locking_threads.h"
#include "proxy/files/resident_files.h"
#include "store/engine/line_server.h"
#include "store/engine/served_array.h"

namespace cuspan::proxy {

// Threads: any.
class ServedFiles {
 public:
  ServedFiles(const store::EngineContext& context, std::shared_ptr<LockingThreads> threads);
  ServedFiles(const ServedFiles&) = delete;

  struct Wanted {
    std::uint64_t mailbox = 0;
    store::MailboxShape shape;
    std::uint16_t array = 0;
  };
  struct Served {
    FileState state;  // Before.
    store::ServedPlaces places;
  };
  // Serves the file until it is closed, or if the session ends before, until the process ends.
  // Calls served(result) on any thread. kInvalid: the file, its mailbox or its number is in use.
  void Serve(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere> here,
             const Wanted& wanted, std::function<void(const Result<Served>&)> served);
  // True while a file is served. Cheap.
  bool serves() const { return server_->serves(); }
  // Kernels are launched. Cheap.
  void KernelsMayAsk() { server_->KernelsMayAsk(); }

 private:
  Result<Served> Begin(OpenFile& file, const FileHere& here, const Wanted& wanted);

  const store::EngineContext context_;
  const std::shared_ptr<LockingThreads> threads_;
  const std::shared_ptr<store::LineServer> server_;
  store::Mailboxes mailboxes_;  // Owner: the locking thread.
};

}  // namespace cuspan::proxy
