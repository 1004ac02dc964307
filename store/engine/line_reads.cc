#include "store/engine/line_reads.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <utility>

#include "common/mutex.h"

namespace cuspan::store {
namespace {

class ThreadReads final : public LineReads {
 public:
  ThreadReads(TaskThreads& threads, ExtentWanted wanted)
      : threads_(threads), wanted_(std::move(wanted)) {}
  ~ThreadReads() override { AwaitOthers({}); }

  void SetFiles(const std::vector<ServedFile*>& files) override { AwaitOthers(files); }
  void Begin(const LineRead& read) override {
    std::vector<std::byte> own;
    const std::span<std::byte> to = read.Destination(own);
    if (read.file->ReadCached(to, read.offset)) {
      if (read.AnswerBytes(to, read.file->MayRead(), true)) wanted_();
      return;
    }
    {
      const MutexLock lock(mutex_);
      ++pending_[read.file];
    }
    threads_.Run([this, read] {
      if (read.ReadAndAnswer()) wanted_();
      const MutexLock lock(mutex_);
      if (--pending_[read.file] == 0) pending_.erase(read.file);
      ended_.notify_all();
    });
  }
  bool Finish() override { return false; }
  bool pending() const override { return false; }

 private:
  // Waits for the reads of other files than these. Ends: file systems answer.
  void AwaitOthers(const std::vector<ServedFile*>& files) {
    MutexLock lock(mutex_);
    ended_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) {
      return std::all_of(pending_.begin(), pending_.end(), [&](const auto& reads) {
        return std::find(files.begin(), files.end(), reads.first) != files.end();
      });
    });
  }

  TaskThreads& threads_;
  const ExtentWanted wanted_;
  Mutex mutex_;
  std::condition_variable ended_;
  std::map<ServedFile*, unsigned> pending_ CUSPAN_GUARDED_BY(mutex_);  // Reads under way.
};

}  // namespace

bool LineRead::AnswerBytes(std::span<const std::byte> from, bool may_read, bool cached) const {
  if (!may_read) {
    AnswerFailed(ESTALE);
    return false;
  }
  if (file->guarded()) std::copy(from.begin(), from.end(), place().begin());
  // The count is complete before the kernel goes on.
  file->Count(bytes);
  const bool wanted = file->extents().Pay(offset >> CUSPAN_EXTENT_SHIFT, cached);
  mailbox->Answer(request, CUSPAN_ANSWER_BYTES, 0);
  return wanted;
}

bool LineRead::ReadAndAnswer() const {
  std::vector<std::byte> own;
  const std::span<std::byte> to = Destination(own);
  const FileOutcome read = file->Read(to, offset);
  if (read.bytes == bytes) return AnswerBytes(to, file->MayRead(), false);
  // The file is shorter than it was.
  AnswerFailed(read.error != 0 ? read.error : ENODATA);
  return false;
}

std::unique_ptr<LineReads> MakeThreadReads(TaskThreads& threads, ExtentWanted wanted) {
  return std::make_unique<ThreadReads>(threads, std::move(wanted));
}

}  // namespace cuspan::store
