// A session's files, and their copies from and to the device.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "proxy/files/file_copies.h"
#include "proxy/files/file_table.h"
#include "proxy/session/session_bulk.h"
#include "proxy/session/session_streams.h"

namespace cuspan::proxy {

// Threads: the receiving thread, unless noted otherwise.
class SessionFiles {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  SessionFiles(const Driver& driver, Channel& channel, Faults& faults, SessionStreams& streams,
               SessionBulk& bulk, Completer& completer, Timeline& timeline)
      : copies_(driver, channel, faults, streams.queues(), streams.points().events(), completer,
                timeline, bulk.transfers(), threads_) {}
  ~SessionFiles() { threads_->End(); }
  SessionFiles(const SessionFiles&) = delete;

  FileTable& table() { return table_; }
  FileCopies& copies() { return copies_; }

  // Adds a file of the program, by its descriptor. Threads: one at a time, with the device's
  // context.
  FileStatus Share(std::uint64_t number, UniqueFd fd) {
    if (!copies_.pieces().Prepare()) return {0, FileResult::kNotSupported, 0};
    return table_.Share(number, std::move(fd));
  }

 private:
  const std::shared_ptr<FileThreads> threads_ = std::make_shared<FileThreads>();
  FileTable table_{threads_};
  FileCopies copies_;
};

}  // namespace cuspan::proxy
