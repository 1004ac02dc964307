#include "proxy/session/submitters.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/cores.h"
#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Launches of one thread in a row after which the others are taken to have stopped.
constexpr unsigned kTurn = 32;
// Cores for the receiving thread, and for the threads of driver, agent and system. Each other core
// is for a launching thread of the program, or for its submitter.
constexpr int kOtherCores = 2;
// Eight waiting threads of a program reach 0.86, 0.88 and 0.84 of the rate without a proxy if 6, 7
// and 8 threads submit (H200, driver 580, 16 cores).
constexpr int kMost = 8;

// Polls until `done()`, for the time of a few driver calls.
template <typename Done>
void PollUntil(Done&& done) {
  for (unsigned polls = 0; !done(); ++polls) {
    if (polls < 10'000)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
  }
}

}  // namespace

Submitters::Submitters(const Device& device, const Driver& driver, Faults& faults,
                       SessionStreams& streams, SubmitterThreads threads)
    : device_(device),
      driver_(driver),
      faults_(faults),
      streams_(streams),
      threads_(threads),
      of_last_thread_(kTurn) {}

SubmitterThreads SubmitterThreads::ForThisMachine() {
  return {.most =
              static_cast<unsigned>(std::clamp((AvailableCores() - kOtherCores) / 2, 0, kMost))};
}

bool Submitters::SeveralThreads(std::uint32_t thread) {
  if (thread == last_thread_) {
    if (of_last_thread_ < kTurn) ++of_last_thread_;
  } else {
    of_last_thread_ = last_thread_ == 0 ? kTurn : 0;
    last_thread_ = thread;
  }
  return of_last_thread_ < kTurn;
}

bool Submitters::Delegate(const std::shared_ptr<Stream>& stream, const Origin& origin,
                          const KernelCall& call, std::optional<ClientMark>& mark) {
  if (!stream->delegated.Worth() || !NothingBefore(*stream)) return false;
  Submitter* const submitter = Choose(*stream);
  if (submitter == nullptr) return false;
  DelegatedOp& op = submitter->NextOp();
  op.stream = stream.get();
  DelegatedLaunch& launch = op.op.emplace<DelegatedLaunch>();
  launch.kernel = call.kernel.get();
  launch.shape = call.shape;
  launch.origin = origin;
  launch.argument_bytes = static_cast<std::uint32_t>(call.arguments.size());
  std::copy(call.arguments.begin(), call.arguments.end(), launch.arguments.begin());
  streams_.Submitted(stream, origin, CUDA_SUCCESS);
  if (mark && streams_.DeviceMarks(*stream)) {
    launch.mark = DelegatedMark{stream->Asked(), stream->submitted, *mark};
    mark.reset();
  }
  stream->delegated.Give(submitter, stream->submitted);
  submitter->Give();
  return true;
}

bool Submitters::Delegate(const std::shared_ptr<Stream>& stream, const ClientMark& mark) {
  if (stream->delegated.submitter() == nullptr || stream->delegated.place() != stream->submitted ||
      !NothingBefore(*stream) || !streams_.DeviceMarks(*stream))
    return false;
  Submitter* const submitter = Choose(*stream);
  if (submitter == nullptr) return false;
  DelegatedOp& op = submitter->NextOp();
  op.stream = stream.get();
  op.op = DelegatedMark{stream->Asked(), stream->submitted, mark};
  stream->delegated.Give(submitter, stream->submitted);
  submitter->Give();
  return true;
}

Submitter* Submitters::Choose(const Stream& stream) {
  Submitter* const last = stream.delegated.submitter();
  if (stream.delegated.pending()) return last->HasRoom() ? last : nullptr;
  if (last != nullptr && last->awake() && last->load() == 0) return last;
  Submitter* best = nullptr;
  Submitter* asleep = nullptr;
  for (const auto& submitter : submitters_) {
    if (!submitter->awake())
      asleep = submitter.get();
    else if (best == nullptr || submitter->load() < best->load())
      best = submitter.get();
  }
  if (best != nullptr && best->load() == 0) return best;
  // One more thread is useful from now on. Until it is awake, the receiving thread is faster.
  if (asleep != nullptr) {
    asleep->Wake();
    return nullptr;
  }
  if (submitters_.size() < threads_.most) {
    Result<std::unique_ptr<Submitter>> started =
        Submitter::Start(device_, driver_, faults_, streams_.points(), threads_.poll_time);
    if (started.ok()) {
      submitters_.push_back(std::move(*started));
    } else {
      LogInfo("{}; the session goes on without it", started.status().message());
      threads_.most = static_cast<unsigned>(submitters_.size());
    }
    return nullptr;
  }
  return best != nullptr && best->HasRoom() ? best : nullptr;
}

bool Submitters::NothingBefore(const Stream& stream) const {
  return faults_.lost() == CUDA_SUCCESS && stream.broken == CUDA_SUCCESS &&
         streams_.queues().EmptyAround(*stream.queue) && !stream.queue->paused() &&
         !streams_.queues().held() && !streams_.queues().awaited();
}

void Submitters::Await(Stream& stream) {
  if (streams_.IsLegacy(stream)) return AwaitAll();
  if (!stream.delegated.pending()) return;
  stream.delegated.Awaited();
  Submitter& submitter = *stream.delegated.submitter();
  submitter.Hurry(true);
  PollUntil([&] {
    receiving_thread.AssertHeld();
    return !stream.delegated.pending();
  });
  submitter.Hurry(false);
}

void Submitters::AwaitAll() {
  for (const auto& submitter : submitters_) submitter->Hurry(true);
  for (const auto& submitter : submitters_) {
    PollUntil([&] { return submitter->load() == 0; });
    submitter->Hurry(false);
  }
}

}  // namespace cuspan::proxy
