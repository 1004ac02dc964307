#include "proxy/session/submitter.h"

#include <chrono>

#include "common/log.h"
#include "common/start_thread.h"

namespace cuspan::proxy {
namespace {

using Clock = std::chrono::steady_clock;

// Polls, of some 30 µs, after which the thread leaves its core to others between two polls.
constexpr unsigned kBusyPolls = 1000;
// Time after which a mark is left to the device, at the cost of one more call of the driver. Most
// programs waiting for each launch have shorter kernels.
constexpr std::chrono::microseconds kLongestWatch{40};

}  // namespace

Result<std::unique_ptr<Submitter>> Submitter::Start(const Device& device, const Driver& driver,
                                                    Faults& faults, StreamPoints& points,
                                                    std::chrono::microseconds poll_time) {
  std::unique_ptr<Submitter> submitter(new Submitter(driver, faults, points));
  CUSPAN_ASSIGN_OR_RETURN(
      submitter->thread_,
      StartThread("cuspan-submit",
                  [made = submitter.get(), &device, poll_time] { made->Loop(device, poll_time); }));
  return submitter;
}

Submitter::~Submitter() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Submitter::Wake() {
  if (called_.load(std::memory_order_relaxed)) return;
  {
    const MutexLock lock(mutex_);
    called_ = true;
  }
  arrived_.notify_one();
}

void Submitter::Give() {
  // The thread sees the op before it sleeps, or this thread sees it asleep.
  given_.fetch_add(1, std::memory_order_seq_cst);
  if (awake_.load(std::memory_order_seq_cst)) return;
  { const MutexLock lock(mutex_); }
  arrived_.notify_one();
}

void Submitter::Loop(const Device& device, std::chrono::microseconds poll_time) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  awake_ = true;
  auto active = Clock::now();
  unsigned polls = 0;
  while (!ending_.load(std::memory_order_relaxed)) {
    if (HasOp()) {
      SubmitNext();
      PollMarks();
      active = Clock::now();
      polls = 0;
    } else if (!watched_.empty()) {
      PollMarks();
      active = Clock::now();
      polls = 0;
    } else if (Clock::now() - active > poll_time) {
      Sleep();
      active = Clock::now();
      polls = 0;
    } else if (++polls < kBusyPolls) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void Submitter::Sleep() {
  MutexLock lock(mutex_);
  awake_.store(false, std::memory_order_seq_cst);
  arrived_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) {
    return ending_ || called_ || given_.load(std::memory_order_seq_cst) != submitted_;
  });
  called_ = false;
  awake_ = true;
}

void Submitter::SubmitNext() {
  DelegatedOp& next = ops_[taken_.load(std::memory_order_relaxed) % kRoom];
  Stream& stream = *next.stream;
  // The mark behind the stream's work so far must not wait for this op.
  std::erase_if(watched_, [&](const WatchedMark& watched) {
    if (watched.stream != &stream) return false;
    LeaveToDevice(watched);
    return true;
  });
  std::visit([&](auto& op) { Submit(stream, op); }, next.op);
  taken_.fetch_add(1, std::memory_order_release);
}

void Submitter::Submit(Stream& stream, DelegatedLaunch& launch) {
  PointAtArguments(*launch.kernel, {launch.arguments.data(), launch.argument_bytes},
                   argument_pointers_);
  const CUresult result = LaunchKernel(driver_, launch.kernel->driver, launch.shape, stream.driver,
                                       argument_pointers_.data());
  if (result != CUDA_SUCCESS) faults_.Posted(launch.origin, result);
  if (launch.mark)
    Submit(stream, *launch.mark);
  else
    Finish(stream);
}

void Submitter::Submit(Stream& stream, DelegatedMark& mark) {
  watched_.push_back({&stream, std::move(mark), Clock::now()});
}

void Submitter::Finish(Stream& stream) {
  stream.delegated.Submitted();
  submitted_.fetch_add(1, std::memory_order_release);
}

void Submitter::PollMarks() {
  const bool hurry = hurry_.load(std::memory_order_relaxed);
  const auto now = Clock::now();
  std::erase_if(watched_, [&](const WatchedMark& watched) {
    Stream& stream = *watched.stream;
    const DelegatedMark& mark = watched.mark;
    if (points_.TryMark(stream.progress, mark.asked, mark.submitted, mark.mark)) {
      Finish(stream);
      return true;
    }
    if (!hurry && now - watched.since < kLongestWatch) return false;
    LeaveToDevice(watched);
    return true;
  });
}

void Submitter::LeaveToDevice(const WatchedMark& watched) {
  Stream& stream = *watched.stream;
  const DelegatedMark& mark = watched.mark;
  points_.PutMark(stream.driver, stream.progress, mark.asked, mark.submitted, mark.mark);
  Finish(stream);
}

}  // namespace cuspan::proxy
