#include "store/engine/line_reads.h"

#include <cerrno>
#include <utility>

namespace cuspan::store {
namespace {

class ThreadReads final : public LineReads {
 public:
  ThreadReads(TaskThreads& threads, ExtentWanted wanted)
      : threads_(threads), wanted_(std::move(wanted)) {}

  void Begin(const LineRead& read) override {
    ++read.file->pending();
    threads_.Run([read, wanted = wanted_] {
      if (read.ReadAndAnswer()) wanted();
      --read.file->pending();
    });
  }
  bool Finish() override { return false; }
  bool pending() const override { return false; }

 private:
  TaskThreads& threads_;
  const ExtentWanted wanted_;
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
