#include "proxy/server.h"

#include <algorithm>
#include <type_traits>

#include "common/cores.h"
#include "common/log.h"
#include "proxy/handlers/handlers.h"
#include "proxy/session/graph_maker.h"
#include "proxy/streams/backlog.h"
#include "proxy/streams/pause_polling.h"

namespace cuspan::proxy {
namespace {

// Limit for queued ops, waiting for a copy's late bytes or an event of another device. More ops
// than in Backlog are queued only while no op leaves the queues.
constexpr std::size_t kMaxWaitingBytes = std::size_t{4} << 30;

// True for ops sent by a client. The op table declares a handler for each of them.
template <typename T>
constexpr bool kHandled =
    T::kClass == OpClass::kPosted || T::kClass == OpClass::kCall || T::kClass == OpClass::kChunk;

template <typename T>
Status HandleAs(DeviceSession& session, const Frame& frame) CUSPAN_REQUIRES(receiving_thread) {
  T op;
  if (!DecodeFrom(frame.payload, op))
    return Status::Invalid("malformed {} of {} bytes", OpName(T::kOp), frame.payload.size());
  if constexpr (T::kClass == OpClass::kCall) {
    if (const CUresult lost = session.faults().lost(); lost != CUDA_SUCCESS) {
      session.channel().Reply<T>(frame.header.request, FailedReply<T>(lost));
      return Status::Ok();
    }
  }
  return Handle(session, Origin{frame.header.sequence, frame.header.request, T::kOp}, op);
}

Status Dispatch(DeviceSession& session, const Frame& frame) CUSPAN_REQUIRES(receiving_thread) {
  Status status;
  bool handled = false;
  WithOp(frame.op(), [&]<typename T>() {
    receiving_thread.AssertHeld();
    if constexpr (kHandled<T>) {
      handled = !frame.header.is_reply();
      if (handled) status = HandleAs<T>(session, frame);
    }
  });
  if (!handled)
    return Status::Invalid("op {} ({}{}) is not a message from a client to a proxy",
                           frame.header.op, OpName(frame.op()),
                           frame.header.is_reply() ? ", a reply" : "");
  return status;
}

// Interval of polling the device for the completer, while frames arrive and while waiting for
// frames. The first one is a compromise with the rate of ops: a launch takes some 3 µs, a query of
// an event up to 1.5, and one query serves all entries of a stream.
constexpr std::chrono::nanoseconds kPollsBetweenFrames{12000};
constexpr std::chrono::nanoseconds kPollsWhileIdle{300};

// Interval after a longer wait than most replies need. The worker may need the driver meanwhile.
constexpr std::chrono::nanoseconds kPollsWhileAwaiting{1500};

// One of them may poll through a program's pauses.
constexpr int kCoresForPolling = 8;
// Time between two looks at the ring meanwhile: a program on the same core's other thread should
// not become slower.
constexpr std::chrono::nanoseconds kBetweenLooks{3000};

void PauseFor(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
}

constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::seconds(10);

// Interval of the notifications to the client while its frames are deliberately left in the ring.
constexpr std::chrono::seconds kReportWhileHolding{2};

// Maximum of frames handled while launches of this many streams wait for batches: enough to fill
// those if the streams' launches arrive by turns. Frames of other streams may keep the loop busy
// for long.
constexpr std::size_t FramesForBatches(std::size_t streams) {
  return std::clamp<std::size_t>(StreamQueues::kMaxInBatch * streams, 64, 256);
}

// True for ops naming memory accessed by the driver.
bool NeedsMemory(Op op) {
  return op == Op::kGraphCopy || op == Op::kGraphSet || op == Op::kGraphMemoryBatch;
}

// True for ops without effects on work of other streams, and with effects in stream order only.
template <typename T>
constexpr bool KeepsToItsStream() {
  if constexpr (std::is_same_v<T, StreamDestroy>)
    return false;
  else if constexpr (T::kClass == OpClass::kPosted)
    return requires(T op) { op.stream; };
  else
    return T::kClass == OpClass::kChunk || std::is_same_v<T, StreamSynchronize>;
}

bool KeepsToItsStream(Op op) {
  bool keeps = false;
  WithOp(op, [&]<typename T>() { keeps = KeepsToItsStream<T>(); });
  return keeps;
}

bool IsLaunch(Op op) { return op == Op::kLaunch || op == Op::kLaunchShaped; }

Status Loop(DeviceSession& session) CUSPAN_REQUIRES(receiving_thread) {
  Channel& channel = session.channel();
  const WaitStages stages = WaitStages::ForThisMachine();
  const WaitStages awaiting{stages.spin, stages.await};
  PausePolling polling(AvailableCores() >= kCoresForPolling);
  bool dropped = false;
  Backlog backlog;
  std::size_t frames_for_batch = 0;
  GraphMaker graphs(session);
  std::chrono::steady_clock::time_point told;
  session.completer().HelperIsBack();
  while (!channel.closed()) {
    if (!dropped && session.faults().lost() != CUDA_SUCCESS) {
      session.DropAll();
      dropped = true;
    }
    bool hold =
        backlog.Hold(session.streams().queues().waiting_ops(), session.streams().queues().taken(),
                     std::chrono::steady_clock::now) ||
        (session.sharing().gate() != nullptr && session.sharing().gate()->AwaitsTimeSlice() &&
         session.streams().queues().waiting_ops() > Backlog::kMaxWaiting);
    std::optional<Frame> frame;
    if (!hold) {
      CUSPAN_ASSIGN_OR_RETURN(frame, channel.Peek());
      if (frame.has_value() && session.sharing().gate() != nullptr && NeedsMemory(frame->op()) &&
          !session.sharing().gate()->MayTakeFrame()) {
        frame.reset();
        hold = true;
      }
    }
    if (hold && std::chrono::steady_clock::now() - told >= kReportWhileHolding) {
      told = std::chrono::steady_clock::now();
      channel.Post(ProxyAlive{});
    }
    const bool may_go_on = session.MayGoOn();
    if (frame.has_value()) {
      // Tasks run at once by the worker (a kernel's attributes, for example) must not overtake
      // launches.
      if (session.streams().queues().gathering() != 0 && !IsLaunch(frame->op()))
        session.streams().queues().FlushGathered();
      if (!KeepsToItsStream(frame->op())) session.submitters().AwaitAll();
      CUSPAN_RETURN_IF_ERROR(Dispatch(session, *frame));
      channel.Pop();
      if (session.streams().queues().waiting_bytes() > kMaxWaitingBytes)
        return Status::Exhausted("{} ops are queued on streams, more than a proxy accepts",
                                 session.streams().queues().waiting_ops());
    }
    if (session.streams().queues().gathering() == 0) {
      frames_for_batch = 0;
    } else if (!frame.has_value() ||
               ++frames_for_batch >= FramesForBatches(session.streams().queues().gathering()) ||
               !channel.HasFrame()) {
      session.streams().queues().FlushGathered();
    }
    if (may_go_on) session.GoOn();
    if (frame.has_value()) {
      graphs.AfterFrame();
      session.completer().Help(kPollsBetweenFrames);
      continue;
    }
    graphs.MakeIfIdle();
    const std::chrono::nanoseconds longest =
        session.sharing().gate() == nullptr ? kLongestSleep : session.sharing().gate()->Settle();
    const auto woken = [&] {
      receiving_thread.AssertHeld();
      return (!hold && channel.HasFrame()) || channel.closed() || session.MayGoOn() ||
             (!dropped && session.faults().lost() != CUDA_SUCCESS);
    };
    const bool soon = channel.own_bell().Wait(
        [&] {
          receiving_thread.AssertHeld();
          session.completer().Help(kPollsWhileIdle);
          return woken() || graphs.MayMake();
        },
        stages.yield, stages);
    if (soon) continue;
    // Time slices of a shared GPU have times of their own.
    if (!hold && session.sharing().gate() == nullptr && !session.completer().urgent() &&
        polling.Begin()) {
      const bool ended = channel.own_bell().Wait(
          [&] {
            PauseFor(kBetweenLooks);
            session.completer().Help(kPollsWhileAwaiting);
            return session.completer().urgent() || woken();
          },
          PausePolling::kLongest, {stages.spin, PausePolling::kLongest});
      if (ended) {
        polling.Ended();
        continue;
      }
      polling.InVain();
    }
    // The client waits for the device. The completer's thread would poll, too; this thread also
    // receives the client's next frame without delay.
    if (session.completer().urgent() && channel.own_bell().Wait(
                                            [&] {
                                              session.completer().Help(kPollsWhileAwaiting);
                                              return !session.completer().urgent() || woken();
                                            },
                                            stages.await, awaiting))
      continue;
    session.completer().HelperSleeps();
    channel.own_bell().Wait(
        [&] {
          receiving_thread.AssertHeld();
          // Ends the sleep, not the polling.
          return woken() || channel.ahead().ConsumeExpected();
        },
        hold ? std::min<std::chrono::nanoseconds>(Backlog::kPatience, longest) : longest, stages);
    session.completer().HelperIsBack();
  }
  return Status::Ok();
}

}  // namespace

Status Serve(DeviceSession& session) {
  Status ended = Loop(session);
  if (!ended.ok()) session.channel().Close(true);
  // A program may end as soon as the device has marked its last work. The trace has that, too.
  if (session.timeline().traced()) session.completer().PollNow();
  // The client is gone: end the worker's wait for channels to other proxies.
  if (session.joins() != nullptr) session.joins()->End();
  return ended;
}

}  // namespace cuspan::proxy
