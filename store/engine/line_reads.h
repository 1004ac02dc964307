// Reads of lines, from the page cache or a drive.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task_threads.h"
#include "store/engine/mailbox.h"
#include "store/engine/served_file.h"

namespace cuspan::store {

// A line wanted by a kernel. Mailbox and file stay until LineReads::SetFiles.
struct LineRead {
  Mailbox* mailbox = nullptr;
  ServedFile* file = nullptr;
  Mailbox::Request request;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // Fewer than a line at the end of the file.

  // The place for the bytes, readable by kernels at any time.
  std::span<std::byte> place() const { return mailbox->PlaceOf(request.entry).first(bytes); }
  // Memory for reading it: the place, or for a file whose bytes need a look at the file after the
  // read, `own`, made large enough.
  std::span<std::byte> Destination(std::vector<std::byte>& own) const {
    if (!file->guarded()) return place();
    own.resize(bytes);
    return own;
  }
  // Answers with these bytes, all of the line's. `may_read`: the file's, asked after the read.
  // `cached`: they came from the page cache. True if the line's extent is wanted now: Extents::Pay.
  bool AnswerBytes(std::span<const std::byte> from, bool may_read, bool cached) const;
  void AnswerFailed(int error) const {
    mailbox->Answer(request, CUSPAN_ANSWER_FAILED, static_cast<std::uint64_t>(error));
  }
  // Reads it and answers. May block. Result as of AnswerBytes.
  bool ReadAndAnswer() const;
};

// Reads for one serving thread. Threads: that one.
class LineReads {
 public:
  virtual ~LineReads() = default;
  // The files of reads from now on. Answers all reads of others begun before.
  virtual void SetFiles(const std::vector<ServedFile*>& files) = 0;
  // Begins a read, and answers it some time.
  virtual void Begin(const LineRead& read) = 0;
  // Answers reads ended meanwhile. True if there were some.
  virtual bool Finish() = 0;
  // Reads to be answered by Finish.
  virtual bool pending() const = 0;
};

// Called when an extent is wanted. Threads: any.
using ExtentWanted = std::function<void()>;

// Reads by io_uring. kUnsupported: the build or the system has none, or forbids it.
Result<std::unique_ptr<LineReads>> MakeRingReads(ExtentWanted wanted);
// Reads from the page cache on the serving thread, from drives by blocking reads of these threads.
// They outlive it.
std::unique_ptr<LineReads> MakeThreadReads(TaskThreads& threads, ExtentWanted wanted);

}  // namespace cuspan::store
