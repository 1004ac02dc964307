#include "interpose/client/connection/connection.h"

#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/process_state.h"
#include "common/strict.h"
#include "interpose/client/base/handles.h"

namespace cuspan {

void EndIfRefused(CUresult result) {
  if (result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    EndIfStrict();
}

Connection::Connection(ProxyLocation place, std::uint64_t number, std::unique_ptr<Channel> channel,
                       ConnectionCommon* common)
    : place_(std::move(place)),
      number_(number),
      channel_(std::move(channel)),
      common_(common),
      transfers_(channel_.get(), common, place_.device),
      receiver_(this) {
  common_->connections.fetch_add(1);
}

Connection::~Connection() {
  channel_->Close(false);
  common_->connections.fetch_sub(1);
}

void Connection::AskWhenDone() {
  const std::uint64_t work = last_posts_.work();
  // Skips new work: a wait of the program may soon report its completion anyway.
  if (seen_at_work_.exchange(work) != work || asked_for_.exchange(work) == work) return;
  static_cast<void>(Send(Fence{}));  // A lost device executes nothing.
}

CUresult Connection::OwnStream(std::atomic<std::uint64_t>& known, std::uint64_t* stream) {
  *stream = known.load(std::memory_order_acquire);
  if (*stream != 0) return CUDA_SUCCESS;
  const MutexLock lock(own_streams_mutex_);
  *stream = known.load(std::memory_order_relaxed);
  if (*stream != 0) return CUDA_SUCCESS;
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = CU_STREAM_NON_BLOCKING;
  if (const CUresult result = Send(create); result != CUDA_SUCCESS) return result;
  *stream = create.stream;
  known.store(create.stream, std::memory_order_release);
  return CUDA_SUCCESS;
}

// --- Faults

CUresult Connection::Lost() {
  if (channel_->closed()) {
    // Receives the proxy's last message: it contains the reason and sets the sticky error.
    // Receiving threads never post; Drain waits for another thread at most.
    receiver_.Drain([this] { return fault() != CUDA_SUCCESS; });
  }
  if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Connection::MalformedReply(const char* op) {
  receiver_.GiveUp(Format("malformed reply to {}", op));
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void Connection::Fail(CUresult result, const std::string* lost) {
  // Precedes fault_: a thread finding the fault finds the context failed, too.
  const bool first = calls_.FailAll([&] {
    if (fault() != CUDA_SUCCESS) return false;
    OnFailed(result);
    // Precedes fault_, too: a thread finding the fault finds the sentence.
    if (lost != nullptr) common_->lost_devices.Add(number_, *lost);
    fault_.store(result);
    return true;
  });
  if (!first) return;
  // Called again: the context may have begun this generation in between, without seeing the fault.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  OnFailed(result);
  transfers_.FailAll(result);
  // Last: a thread returning from a wait finds the reason.
  channel_->GiveUp();
}

std::string Connection::LossSentence(std::string_view why) const {
  return Format("device {} ({}) is lost: {}", device(), place_.name, why);
}

void Connection::Lose(const std::string& sentence) {
  Fail(CUDA_ERROR_DEVICE_UNAVAILABLE, &sentence);
}

// --- Proxies not answering

std::string Connection::WhySilent(pid_t agent) const {
  constexpr const char* kStopped = "{} (process {}) is stopped; `kill -CONT {}` resumes it";
  if (agent != 0 && IsStopped(agent))
    return Format(kStopped, "the agent of this node", agent, agent);
  if (!place_.relayed && IsStopped(place_.process))
    return Format(kStopped, "its proxy", place_.process, place_.process);
  if (!place_.relayed)
    return Format("its proxy (process {}) is busy in the driver, or gets no CPU time",
                  place_.process);
  return Format(
      "its proxy (process {} on that host) or the agent there is stopped or gets no CPU time, or "
      "the network is slow",
      place_.process);
}

void Connection::PollAnswers(pid_t agent) {
  const bool waited_for = fault() == CUDA_SUCCESS && channel_->waited_for();
  switch (answers_.Poll(waited_for, receiver_.received(), channel_->taken())) {
    case AnswerWatch::Step::kNothing:
      return;
    case AnswerWatch::Step::kAsk:
      if (receiver_.TryPost(AskAlive{})) answers_.Asked();
      return;
    case AnswerWatch::Step::kReportSilent:
      LogWarn("device {} ({}) has not answered for {} s: {}", device(), place_.name,
              AnswerWatch::kReportAfterSeconds, WhySilent(agent));
      return;
    case AnswerWatch::Step::kReportBack:
      LogWarn("device {} ({}) answers again", device(), place_.name);
      return;
  }
}

CUresult Connection::Wait(std::uint32_t request, PendingCalls::Call* pending) {
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&] {
    return pending->done.load(std::memory_order_acquire) || fault() != CUDA_SUCCESS;
  };
  const DeviceWait wait(*common_, *channel_);
  receiver_.Watch(over);
  // Ends with the reply, or with Fail: after a fault, or the end of the channel or the agent.
  calls_.WaitFor(request, pending, [&](std::condition_variable& arrived, MutexLock& lock) {
    WaitLong(arrived, lock, over);
  });
  const auto waited = std::chrono::steady_clock::now() - start;
  channel_->statistics().wait_nanoseconds.fetch_add(
      static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()),
      std::memory_order_relaxed);
  common_->output.WriteKept();
  return pending->done.load(std::memory_order_acquire) ? CUDA_SUCCESS : fault();
}

}  // namespace cuspan
