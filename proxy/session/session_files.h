// A session's files, and their copies from and to the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/file_roots.h"
#include "common/mutex.h"
#include "common/task_threads.h"
#include "proxy/files/file_copies.h"
#include "proxy/files/file_table.h"
#include "proxy/files/resident_files.h"
#include "proxy/files/served_files.h"
#include "proxy/session/session_bulk.h"
#include "proxy/session/session_streams.h"

namespace cuspan::proxy {

// Threads: the receiving thread, unless noted otherwise.
class SessionFiles {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  SessionFiles(const Driver& driver, const Device& device, Channel& channel, Faults& faults,
               SessionStreams& streams, SessionBulk& bulk, Completer& completer,
               Timeline& timeline);
  // Does not wait for kernels: files read by them stay as they are, and the process ends.
  ~SessionFiles() {
    locking_->End();
    watchers_.End();
    finders_.End();
    threads_->End();
    LockingThreads::Finish(locking_);
  }
  SessionFiles(const SessionFiles&) = delete;

  FileTable& table() { return table_; }
  FileCopies& copies() { return copies_; }
  ResidentFiles& residents() { return residents_; }
  ServedFiles& served() { return served_; }

  // Adds a file of the program, by its descriptor. Threads: any with the device's context.
  FileStatus Share(std::uint64_t number, UniqueFd fd);

  // Opens a file beneath a root of the run, by its name in the program and flags of open(2). Calls
  // opened(outcome) on any thread; without one if the name is beneath no root. Threads: any with
  // the device's context.
  void OpenNamed(std::uint64_t number, const std::string& path, int flags,
                 std::function<void(const std::optional<FileStatus>& outcome)> opened);

  // Looks for a counterpart of the client's file. Calls found(its seed, or 0) on any thread.
  void FindCounterpart(std::shared_ptr<OpenFile> file, ClientFile wanted,
                       std::function<void(std::uint64_t seed)> found);
  // Calls proved(true) if the counterpart's sum is this one; it may be read from then on. Otherwise
  // the file has none any more. Threads: any with the device's context.
  void ProveCounterpart(std::shared_ptr<OpenFile> file, std::uint64_t sum,
                        std::function<void(bool same)> proved);

  // Reads up to `bytes` at `offset` of a file of this node. Calls peeked(outcome, its state, the
  // bytes) on any thread. Threads: any with the device's context.
  void Peek(
      std::shared_ptr<const FileHere> file, std::uint64_t offset, std::uint32_t bytes,
      std::function<void(const FileStatus&, const FileState&, std::span<const std::byte>)> peeked);

 private:
  // Calls answer(work()) with a result of a file thread, or answer({}) if that takes too long.
  template <typename T>
  void FindInTime(std::function<void(T)> answer, std::function<T()> work);
  // Makes what copies need in this process. False if it can not be had.
  bool Prepare();

  const std::shared_ptr<TaskThreads> threads_ = std::make_shared<TaskThreads>();
  const std::shared_ptr<LockingThreads> locking_ = std::make_shared<LockingThreads>();
  ResidentFiles residents_;
  ServedFiles served_;
  FileTable table_{threads_};
  FileCopies copies_;
  // Looking for counterparts must not block other files, nor the program for long.
  TaskThreads finders_{1};
  TaskThreads watchers_{1};
  std::atomic<bool> given_up_ = false;
  Mutex finding_;
  Mutex preparing_;
  std::vector<FileRoot> roots_;  // Constant.
  // Counterparts without a proof so far: a program could choose among seeds, or guess bytes.
  std::atomic<int> wrong_proofs_ = 0;
};

}  // namespace cuspan::proxy
