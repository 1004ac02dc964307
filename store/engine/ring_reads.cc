// Reads of lines by io_uring.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_map>
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
// Reads submitted together: lines in the page cache are answered at once, so the first one of many
// must not wait long.
constexpr unsigned kBatch = 32;
// Files in the ring's own table: reads of them need not count their users. Others work, too.
constexpr unsigned kFiles = 256;

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
    // Linux 5.19.
    if (::io_uring_register_files_sparse(&reads->ring_, kFiles) == 0)
      for (unsigned i = 0; i < kFiles; ++i) reads->free_places_.push_back(i);
    return std::unique_ptr<LineReads>(std::move(reads));
  }
  ~RingReads() override {
    if (!made_) return;
    FinishOthers({});
    ::io_uring_queue_exit(&ring_);
  }

  void SetFiles(const std::vector<ServedFile*>& files) override {
    FinishOthers(files);
    std::erase_if(places_, [&](const auto& place) {
      if (std::find(files.begin(), files.end(), place.first) != files.end()) return false;
      int none = -1;
      ::io_uring_register_files_update(&ring_, place.second, &none, 1);
      free_places_.push_back(place.second);
      return true;
    });
    for (ServedFile* const file : files) {
      if (places_.contains(file) || free_places_.empty()) continue;
      int fd = file->fd();
      if (::io_uring_register_files_update(&ring_, free_places_.back(), &fd, 1) != 1) continue;
      places_.emplace(file, free_places_.back());
      free_places_.pop_back();
    }
  }

  void Begin(const LineRead& read) override {
    if (free_.empty()) {
      waiting_.push_back(read);
      return;
    }
    Prepare(read);
    if (begun_ == kBatch) Finish();
  }

  bool Finish() override {
    if (under_way_ == 0) return false;
    ::io_uring_submit_and_get_events(&ring_);
    begun_ = 0;
    ++batch_;
    return TakeCompletions();
  }
  bool pending() const override { return under_way_ != 0; }

 private:
  struct Slot {
    LineRead read;  // No file: it is free.
    std::uint64_t batch = 0;
    std::vector<std::byte> own;  // Memory for bytes that kernels may not see yet.
  };

  struct Done {
    unsigned slot = 0;
    int result = 0;
  };

  explicit RingReads(ExtentWanted wanted) : wanted_(std::move(wanted)), slots_(kDepth) {
    for (unsigned i = 0; i < kDepth; ++i) free_.push_back(i);
  }

  void Prepare(const LineRead& read) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // There are as many as slots: not expected.
      if (read.ReadAndAnswer()) wanted_();
      return;
    }
    const unsigned number = free_.back();
    free_.pop_back();
    Slot& slot = slots_[number];
    slot.read = read;
    slot.batch = batch_;
    ++under_way_;
    ++begun_;
    const std::span<std::byte> to = read.Destination(slot.own);
    const auto place = places_.find(read.file);
    const bool placed = place != places_.end();
    ::io_uring_prep_read(entry, placed ? static_cast<int>(place->second) : read.file->fd(),
                         to.data(), static_cast<unsigned>(to.size()), read.offset);
    if (placed) ::io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    ::io_uring_sqe_set_data64(entry, number);
  }

  // Finishes the reads of other files than these: the kernel may write to their places until then.
  void FinishOthers(const std::vector<ServedFile*>& files) {
    const auto is_other = [&](const LineRead& read) {
      return read.file != nullptr &&
             std::find(files.begin(), files.end(), read.file) == files.end();
    };
    while (std::any_of(waiting_.begin(), waiting_.end(), is_other) ||
           std::any_of(slots_.begin(), slots_.end(),
                       [&](const Slot& slot) { return is_other(slot.read); })) {
      ::io_uring_submit_and_wait(&ring_, 1);
      begun_ = 0;
      batch_ += 2;  // They were waited for.
      TakeCompletions();
    }
  }

  bool TakeCompletions() {
    done_.clear();
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring_, &completion) == 0 && completion != nullptr) {
      done_.push_back(
          {static_cast<unsigned>(::io_uring_cqe_get_data64(completion)), completion->res});
      ::io_uring_cqe_seen(&ring_, completion);
    }
    // All these reads have ended, so one look at a file is enough.
    const ServedFile* file = nullptr;
    bool may_read = false;
    for (const Done& done : done_) {
      Slot& slot = slots_[done.slot];
      if (slot.read.file != file) {
        file = slot.read.file;
        may_read = file->MayRead();
      }
      if (Answer(slot, done.result, may_read)) wanted_();
      slot.read = LineRead();
      free_.push_back(done.slot);
      --under_way_;
      if (!waiting_.empty()) {
        Prepare(waiting_.front());
        waiting_.pop_front();
      }
    }
    return !done_.empty();
  }

  // Result as of LineRead::AnswerBytes.
  bool Answer(Slot& slot, int result, bool may_read) {
    const LineRead& read = slot.read;
    // Done while it was submitted: nothing was waited for.
    if (result >= 0 && static_cast<std::uint32_t>(result) == read.bytes)
      return read.AnswerBytes(read.Destination(slot.own), may_read, slot.batch + 1 == batch_);
    // A read of a part, or one that was not made: a blocking one finds the cause.
    if (result > 0 || result == -EINVAL || result == -EAGAIN || result == -EINTR ||
        result == -EOPNOTSUPP)
      return read.ReadAndAnswer();
    read.AnswerFailed(result < 0 ? -result : ENODATA);
    return false;
  }

  const ExtentWanted wanted_;
  io_uring ring_{};
  bool made_ = false;
  std::vector<unsigned> free_places_;                 // Places of the ring's table of files.
  std::unordered_map<ServedFile*, unsigned> places_;  // Files in it.
  std::vector<Slot> slots_;                           // Reads under way.
  std::vector<unsigned> free_;
  std::vector<Done> done_;
  unsigned under_way_ = 0;
  unsigned begun_ = 0;  // Reads not submitted yet.
  std::uint64_t batch_ = 0;
  std::deque<LineRead> waiting_;
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
