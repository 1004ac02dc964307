#include "store/engine/line_reads.h"

#include <cerrno>
#include <condition_variable>
#include <utility>

#include "common/mutex.h"

namespace cuspan::store {
namespace {

class ThreadReads final : public LineReads {
 public:
  ThreadReads(TaskThreads& threads, ExtentWanted wanted)
      : threads_(threads), wanted_(std::move(wanted)) {}
  ~ThreadReads() override { Await(); }

  void SetFiles(const std::vector<ServedFile*>&) override { Await(); }
  void Begin(const LineRead& read) override {
    if (read.file->ReadCached(read.place(), read.offset)) {
      if (read.AnswerBytes(true)) wanted_();
      return;
    }
    {
      const MutexLock lock(mutex_);
      ++pending_;
    }
    threads_.Run([this, read] {
      if (read.ReadAndAnswer()) wanted_();
      const MutexLock lock(mutex_);
      if (--pending_ == 0) ended_.notify_all();
    });
  }
  bool Finish() override { return false; }
  bool pending() const override { return false; }

 private:
  void Await() {
    MutexLock lock(mutex_);
    // Ends: a file system answers.
    ended_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return pending_ == 0; });
  }

  TaskThreads& threads_;
  const ExtentWanted wanted_;
  Mutex mutex_;
  std::condition_variable ended_;
  unsigned pending_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

}  // namespace

bool LineRead::AnswerBytes(bool cached) const {
  if (!file->MayRead()) {
    AnswerFailed(ESTALE);
    return false;
  }
  // The count is complete before the kernel goes on.
  file->Count(bytes);
  const bool wanted = file->extents().Pay(offset >> CUSPAN_EXTENT_SHIFT, cached);
  mailbox->Answer(request, CUSPAN_ANSWER_BYTES, 0);
  return wanted;
}

bool LineRead::ReadAndAnswer() const {
  const FileOutcome read = file->Read(place(), offset);
  if (read.bytes == bytes) return AnswerBytes(false);
  // The file is shorter than it was.
  AnswerFailed(read.error != 0 ? read.error : ENODATA);
  return false;
}

std::unique_ptr<LineReads> MakeThreadReads(TaskThreads& threads, ExtentWanted wanted) {
  return std::make_unique<ThreadReads>(threads, std::move(wanted));
}

}  // namespace cuspan::store
