#include "proxy/streams/completion.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "common/log.h"
#include "proxy/streams/complete_entries.h"
#include "proxy/streams/kernel_output.h"

namespace cuspan::proxy {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kFirstBackoff{5};
constexpr microseconds kLongestBackoff{50};
// Time between two polls of the device. The driver admits one thread at a time to a context, and
// polling should not delay the thread submitting work.
constexpr std::chrono::nanoseconds kPollInterval{1500};
// A mark of a failed stream is never reached. Such streams are asked for errors at this interval.
constexpr microseconds kErrorInterval{100};
// Time between two polls while only progress marks are pending.
constexpr microseconds kBetweenMarks{20};
constexpr microseconds kNoLimit = std::chrono::hours(1);
// Chunks up to this size are sent inside a frame: between nodes, a chunk in a slot costs a message
// of its own after the announcing frame. Only if no other chunk is in flight: the frame would
// overtake it, and the client would buffer the frame until then.
constexpr std::uint32_t kMaxInlineChunk = 4096;
// While the receiving thread polls, the completer's thread checks on it at this interval. It stops
// this long after the last pending entry.
constexpr microseconds kWatchSleep{200};
constexpr std::chrono::milliseconds kWatch{20};

void PauseBetweenPolls() {
  const auto end = steady_clock::now() + kPollInterval;
  while (steady_clock::now() < end) __builtin_ia32_pause();
}

// Creates an event recorded before all work, so it is complete as soon as the device executes
// anything.
CUevent MakeEvent(const Driver& driver) {
  CUevent event = nullptr;
  if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
    driver.cuEventRecord(event, nullptr);
  return event;
}

// True for bytes to the client, counted as chunks.
bool IsChunk(const Completion& completion) {
  return std::holds_alternative<SendChunk>(completion) ||
         std::holds_alternative<SendStatus>(completion);
}

// True for messages to the client: the kernels' output goes before them.
bool TellsClient(const Completion& completion) {
  return IsChunk(completion) || std::holds_alternative<ReachRecord>(completion) ||
         std::holds_alternative<Answer>(completion);
}

}  // namespace

void TransferState::Fail(Channel& channel, CUresult result) {
  if (!failed.exchange(true)) channel.Post(TransferFailed{id, result});
}

CUresult AskedStream::Query(const Driver& driver) const {
  const MutexLock lock(mutex_);
  return last_.get() != nullptr ? driver.cuEventQuery(last_.get()) : driver.cuStreamQuery(stream_);
}

void AskedStream::Replace(PooledEvent last) {
  const MutexLock lock(mutex_);
  last_ = std::move(last);
}

Completer::Completer(const Device& device, const Driver& driver, Channel& channel, Faults& faults)
    : driver_(driver),
      channel_(channel),
      faults_(faults),
      clock_(driver),
      complete_(MakeEvent(driver)),
      thread_([this, &device] { Loop(device); }) {}

Completer::~Completer() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_one();
  thread_.join();
  if (complete_ != nullptr) driver_.cuEventDestroy(complete_);
}

void Completer::Add(const std::shared_ptr<StreamProgress>& progress, StreamPoint point,
                    std::uint64_t mark, Completion completion) {
  progress->pending_.fetch_add(1, std::memory_order_relaxed);
  Put({progress, {std::move(point), mark, std::move(completion)}});
}

void Completer::Put(Arrival arrival) {
  if (IsChunk(arrival.entry.completion)) unpushed_.fetch_add(1, std::memory_order_relaxed);
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const bool urgent = !std::holds_alternative<ProgressMark>(arrival.entry.completion);
    arrivals_.push_back(std::move(arrival));
    have_arrivals_.store(true, std::memory_order_release);
    entries_.fetch_add(1, std::memory_order_relaxed);
    if (urgent) urgent_entries_.fetch_add(1, std::memory_order_relaxed);
    wake = sleeping_ &&
           (!sleep_limited_ || (urgent && !helper_awake_.load(std::memory_order_relaxed)));
    urgent_arrival_ = urgent_arrival_ || urgent;
  }
  if (wake) arrived_.notify_one();
}

void Completer::ReceiveArrivals() {
  if (!have_arrivals_.load(std::memory_order_acquire)) return;
  {
    const MutexLock lock(mutex_);
    taken_.swap(arrivals_);
    urgent_arrival_ = false;
    have_arrivals_.store(false, std::memory_order_relaxed);
  }
  for (Arrival& arrival : taken_) {
    if (arrival.progress->entries_.empty()) active_.push_back(arrival.progress);
    if (IsChunk(arrival.entry.completion)) ++pending_chunks_;
    if (!std::holds_alternative<ProgressMark>(arrival.entry.completion)) {
      ++urgent_;
      ++urgent_changes_;
    }
    arrival.progress->entries_.push_back(std::move(arrival.entry));
  }
  taken_.clear();
}

CUresult Completer::Query(const StreamProgress& progress, const StreamProgress::Entry& entry) {
  if (const CUresult lost = faults_.lost(); lost != CUDA_SUCCESS) return lost;
  const StreamPoint& point = entry.point;
  if (point.mark) {
    if (point.client != nullptr ? Reached(point.client->value, *point.mark)
                                : progress.word.Reached(*point.mark))
      return CUDA_SUCCESS;
    if (!errors_.now) return CUDA_ERROR_NOT_READY;
  }
  if (point.IsThatOfTheLast()) return CUDA_SUCCESS;
  const CUresult result =
      point.stream != nullptr ? point.stream->Query(driver_) : driver_.cuEventQuery(point.query);
  if (result != CUDA_ERROR_NOT_READY) faults_.Check(result);
  // Unless the device is lost, it will write the client's mark.
  if (result != CUDA_SUCCESS && point.client != nullptr && faults_.lost() == CUDA_SUCCESS)
    return CUDA_ERROR_NOT_READY;
  return result;
}

void Completer::Push(const SendChunk& chunk, CUresult result) {
  --pending_chunks_;
  if (result != CUDA_SUCCESS || chunk.transfer->failed) {
    chunk.transfer->Fail(channel_, result);
    channel_.ReturnSlot(chunk.slot);
  } else {
    if (chunk.bytes <= kMaxInlineChunk && channel_.SlotsInUse() == 1) {
      channel_.Post(ChunkInline{chunk.transfer->id,
                                chunk.offset,
                                pushed(),
                                {channel_.OutgoingSlot(chunk.slot), chunk.bytes}});
      channel_.ReturnSlot(chunk.slot);
    } else {
      channel_.Post(Chunk{chunk.transfer->id, chunk.offset, chunk.bytes, chunk.slot});
    }
    pushed_.fetch_add(1, std::memory_order_release);
  }
  unpushed_.fetch_sub(1, std::memory_order_release);
}

void Completer::Push(const SendStatus& status, CUresult result) {
  --pending_chunks_;
  if (result != CUDA_SUCCESS || status.transfer->failed) {
    status.transfer->Fail(channel_, result);
  } else {
    channel_.Post(ChunkInline{status.transfer->id, 0, pushed(), status.bytes});
    pushed_.fetch_add(1, std::memory_order_release);
  }
  unpushed_.fetch_sub(1, std::memory_order_release);
}

void Completer::Sweep(std::vector<Report>& reports) {
  // Takes the first entry, complete with this result.
  const auto take = [&](const std::shared_ptr<StreamProgress>& progress, CUresult result) {
    polling_.AssertHeld();
    StreamProgress::Entry& entry = progress->entries_.front();
    if (TellsClient(entry.completion) && result == CUDA_SUCCESS)
      KernelOutput::Flush(driver_, entry.point.query != nullptr ? entry.point.query : complete_);
    if (const auto* slot = std::get_if<GiveSlotBack>(&entry.completion))
      channel_.ReleaseSlot(slot->slot);
    if (const auto* chunk = std::get_if<SendChunk>(&entry.completion)) Push(*chunk, result);
    if (const auto* status = std::get_if<SendStatus>(&entry.completion)) Push(*status, result);
    if (!std::holds_alternative<ProgressMark>(entry.completion)) {
      --urgent_;
      ++urgent_changes_;
      urgent_entries_.fetch_sub(1, std::memory_order_relaxed);
    }
    entries_.fetch_sub(1, std::memory_order_relaxed);
    reports.push_back({progress, entry.mark, result, std::move(entry.completion)});
    progress->entries_.pop_front();
  };
  for (const std::shared_ptr<StreamProgress>& progress : active_) {
    CompleteEntries complete;
    do {
      complete = FindComplete(progress->entries_.size(), [&](std::size_t i) {
        polling_.AssertHeld();
        while (i > 0 && progress->entries_[i].point.IsThatOfTheLast()) --i;
        return Query(*progress, progress->entries_[i]);
      });
      for (std::size_t i = 1; i <= complete.count; ++i)
        take(progress, i == complete.count ? complete.result : CUDA_SUCCESS);
    } while (complete.count != 0 && complete.result != CUDA_SUCCESS);
  }
  std::erase_if(active_, [](const std::shared_ptr<StreamProgress>& progress) {
    return progress->entries_.empty();
  });
}

void Completer::SendReports(std::vector<Report>& reports) {
  for (Report& report : reports) {
    report.progress->completed_.store(report.mark, std::memory_order_release);
    if (const auto* reached = std::get_if<ReachRecord>(&report.completion)) {
      EventRecordState& record = *reached->record;
      double time = 0;
      // Without a time, the record is reached all the same.
      if (record.timed && report.result == CUDA_SUCCESS &&
          faults_.Check(clock_.Time(reached->record, &time)) != CUDA_SUCCESS)
        time = std::numeric_limits<double>::quiet_NaN();
      channel_.Post(EventReached{record.event, record.record, report.result, pushed(), time});
      record.complete.store(true, std::memory_order_release);
    } else if (std::holds_alternative<ProgressMark>(report.completion)) {
      channel_.own_bell().Ring();
    } else if (const auto* wake = std::get_if<WakeClient>(&report.completion)) {
      channel_.marks().WakeWaiter(*wake->mark);
    } else if (const auto* answer = std::get_if<Answer>(&report.completion)) {
      (*answer)(report.result, pushed());
    }
    report.progress->pending_.fetch_sub(1, std::memory_order_release);
  }
  reports.clear();
}

Completer::RoundResult Completer::Round() {
  const MutexLock lock(polling_);
  rounds_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t before = urgent_changes_;
  ReceiveArrivals();
  const auto now = steady_clock::now();
  if (now - errors_.last >= kErrorInterval) errors_ = {now, true};
  Sweep(found_);
  // A chunk of another stream may have completed between the query of its stream and the first
  // entry of found_. A further sweep finds and pushes it before found_ is reported.
  while (!found_.empty() && pending_chunks_ != 0) {
    Sweep(later_);
    SendReports(found_);
    found_.swap(later_);
  }
  SendReports(found_);
  return {urgent_changes_ != before, !active_.empty(), urgent_ != 0};
}

void Completer::Help(std::chrono::nanoseconds interval) {
  if (entries_.load(std::memory_order_relaxed) == 0) return;
  if (urgent_entries_.load(std::memory_order_relaxed) == 0) interval = kBetweenMarks;
  if (steady_clock::now() - last_help_ < interval) return;
  PollNow();
}

void Completer::PollNow() {
  Round();
  last_help_ = steady_clock::now();
}

void Completer::HelperSleeps() {
  helper_awake_.store(false, std::memory_order_relaxed);
  if (entries_.load(std::memory_order_relaxed) == 0) return;
  {
    const MutexLock lock(mutex_);
    take_over_ = true;
  }
  arrived_.notify_one();
}

void Completer::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  // Sleeps of some µs need equal timer precision; the default timer slack adds 50 µs.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  auto active = steady_clock::now();
  microseconds backoff = kFirstBackoff;
  std::uint64_t seen = 0;
  RoundResult round = {};
  while (!ending_.load(std::memory_order_acquire)) {
    const bool helped = helper_awake_.load(std::memory_order_relaxed) &&
                        rounds_.load(std::memory_order_relaxed) != seen;
    if (!helped) round = Round();
    seen = rounds_.load(std::memory_order_relaxed);

    const auto now = steady_clock::now();
    if (round.changed || helped) {
      active = now;
      backoff = kFirstBackoff;
    }
    // If nothing is pending, the thread still polls for a while: new entries may arrive soon, and
    // waking up takes longer than polling.
    const auto idle = now - active;
    if (helper_awake_.load(std::memory_order_relaxed)) {
      Sleep(helped || round.pending || idle < kWatch ? kWatchSleep : kNoLimit);
    } else if (idle < stages_.spin) {
      PauseBetweenPolls();
    } else if (idle < (round.urgent ? stages_.await : stages_.yield)) {
      PauseBetweenPolls();
      std::this_thread::yield();
    } else if (!round.pending) {
      Sleep(kNoLimit);
    } else if (!round.urgent) {
      Sleep(kLongestBackoff);
    } else {
      Sleep(backoff);
      backoff = std::min(2 * backoff, kLongestBackoff);
    }
  }
}

void Completer::Sleep(microseconds limit) {
  MutexLock lock(mutex_);
  sleeping_ = true;
  sleep_limited_ = limit != kNoLimit;
  arrived_.wait_for(lock, limit, [this]() CUSPAN_REQUIRES(mutex_) {
    if (ending_ || take_over_) return true;
    if (!sleep_limited_) return !arrivals_.empty();
    return urgent_arrival_ && !helper_awake_.load(std::memory_order_relaxed);
  });
  sleeping_ = false;
  take_over_ = false;
}

}  // namespace cuspan::proxy
