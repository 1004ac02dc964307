// Reads of lines by io_uring.
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "store/engine/line_reads.h"

#ifdef CUSPAN_URING
#include <liburing.h>
#endif

namespace cuspan::store {

#ifdef CUSPAN_URING
namespace {

// Reads under way for a serving thread: enough for a drive.
constexpr unsigned kDepth = 256;

class RingReads final : public LineReads {
 public:
  static Result<std::unique_ptr<LineReads>> Make(ExtentWanted wanted) {
    std::unique_ptr<RingReads> reads(new RingReads(std::move(wanted)));
    // Linux 6.1: completions are worked off when this thread asks for them.
    int result = ::io_uring_queue_init(kDepth, &reads->ring_,
                                       IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (result == -EINVAL) result = ::io_uring_queue_init(kDepth, &reads->ring_, 0);
    if (result < 0)
      return Status::Unsupported("io_uring can not be used: {}", std::strerror(-result));
    reads->made_ = true;
    return std::unique_ptr<LineReads>(std::move(reads));
  }
  ~RingReads() override {
    // The kernel may write to places until their reads have ended.
    while (made_ && under_way_ != 0) Wait();
    if (made_) ::io_uring_queue_exit(&ring_);
  }

  void Begin(const LineRead& read) override {
    ++read.file->pending();
    if (free_.empty()) {
      waiting_.push_back(read);
      return;
    }
    Submit(read);
  }

  bool Finish() override {
    if (under_way_ == 0) return false;
    // Also submits.
    ::io_uring_submit_and_get_events(&ring_);
    return TakeCompletions();
  }
  bool pending() const override { return under_way_ != 0; }

 private:
  explicit RingReads(ExtentWanted wanted) : wanted_(std::move(wanted)), reads_(kDepth) {
    for (unsigned i = 0; i < kDepth; ++i) free_.push_back(i);
  }

  void Submit(const LineRead& read) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // As many entries as reads: not expected.
      Answer(read, false);
      return;
    }
    const unsigned number = free_.back();
    free_.pop_back();
    reads_[number] = read;
    ++under_way_;
    // A whole line, also at the end of the file: lengths are multiples of a drive's blocks.
    const std::span<std::byte> place = read.mailbox->PlaceOf(read.request.entry);
    ::io_uring_prep_read(entry, read.file->fd_for_lines(), place.data(),
                         static_cast<unsigned>(place.size()), read.offset);
    ::io_uring_sqe_set_data64(entry, number);
  }

  void Wait() {
    ::io_uring_submit_and_wait(&ring_, 1);
    TakeCompletions();
  }

  bool TakeCompletions() {
    bool some = false;
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring_, &completion) == 0 && completion != nullptr) {
      const auto number = static_cast<unsigned>(::io_uring_cqe_get_data64(completion));
      const int result = completion->res;
      ::io_uring_cqe_seen(&ring_, completion);
      const LineRead read = reads_[number];
      free_.push_back(number);
      --under_way_;
      if (result == -EINVAL) read.file->DirectFails();
      Answer(read, result >= 0 && static_cast<std::uint32_t>(result) >= read.bytes);
      some = true;
      if (!waiting_.empty()) {
        Submit(waiting_.front());
        waiting_.pop_front();
      }
    }
    return some;
  }

  // `complete`: all bytes are there. Otherwise they are read again, and the cause is found.
  void Answer(const LineRead& read, bool complete) {
    if (complete ? read.AnswerBytes(false) : read.ReadAndAnswer()) wanted_();
    --read.file->pending();
  }

  const ExtentWanted wanted_;
  io_uring ring_{};
  bool made_ = false;
  std::vector<LineRead> reads_;
  std::vector<unsigned> free_;
  std::deque<LineRead> waiting_;
  unsigned under_way_ = 0;
};

}  // namespace

Result<std::unique_ptr<LineReads>> MakeRingReads(ExtentWanted wanted) {
  return RingReads::Make(std::move(wanted));
}
#else
Result<std::unique_ptr<LineReads>> MakeRingReads(ExtentWanted) {
  return Status::Unsupported("this build has no liburing");
}
#endif

}  // namespace cuspan::store
