#include "proxy/server.h"

#include <algorithm>

#include "common/log.h"
#include "proxy/handlers/handlers.h"
#include "proxy/streams/backlog.h"

namespace cuspan::proxy {
namespace {

// Ops behind a copy whose bytes are late, or an event of another device, wait here, and beyond
// Backlog's measure only while nothing else moves.
constexpr std::size_t kMaxWaitingBytes = std::size_t{4} << 30;

// What a client sends; the table gives each such op a handler.
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

// How often the loop looks at the device for the completer: while it has frames
// to handle, and while it waits for some. The first is a compromise with the rate of
// launches, of which each takes some 3 µs; a look takes about 0.2.
constexpr std::chrono::nanoseconds kPollsBetweenFrames{4000};
constexpr std::chrono::nanoseconds kPollsWhileIdle{300};

// When that has taken longer than most answers do, and the worker may want the driver meanwhile.
constexpr std::chrono::nanoseconds kPollsWhileAwaiting{1500};

constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::seconds(10);

// How often a client is told that its frames are left where they are for a reason.
constexpr std::chrono::seconds kTellWhileHolding{2};

// Launches wait for others to be handed over with, of the same stream, while so many frames come:
// those of other streams may keep the loop busy for long.
constexpr unsigned kMaxFramesForBatch = 64;

// The driver looks at the memory that they name.
bool NeedsMemory(Op op) {
  return op == Op::kGraphCopy || op == Op::kGraphSet || op == Op::kGraphMemoryBatch;
}

bool IsLaunch(Op op) { return op == Op::kLaunch || op == Op::kLaunchShaped; }

Status Loop(DeviceSession& session) CUSPAN_REQUIRES(receiving_thread) {
  Channel& channel = session.channel();
  const WaitStages stages = WaitStages::ForThisMachine();
  const WaitStages awaiting{stages.spin, stages.await};
  bool dropped = false;
  Backlog backlog;
  unsigned frames_for_batch = 0;
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
          !session.sharing().gate()->MayTake()) {
        frame.reset();
        hold = true;
      }
    }
    if (hold && std::chrono::steady_clock::now() - told >= kTellWhileHolding) {
      told = std::chrono::steady_clock::now();
      channel.Post(ProxyAlive{});
    }
    const bool may_go_on = session.MayGoOn();
    if (frame.has_value() || may_go_on) session.streams().StopAsking();
    if (frame.has_value()) {
      // What the worker does at once, a kernel's attributes for one, must not overtake launches.
      if (session.streams().queues().gathering() && !IsLaunch(frame->op()))
        session.streams().queues().FlushGathered();
      CUSPAN_RETURN_IF_ERROR(Dispatch(session, *frame));
      channel.Pop();
      if (session.streams().queues().waiting_bytes() > kMaxWaitingBytes)
        return Status::Exhausted("{} ops are queued on streams, more than a proxy accepts",
                                 session.streams().queues().waiting_ops());
    }
    if (!session.streams().queues().gathering()) {
      frames_for_batch = 0;
    } else if (!frame.has_value() || ++frames_for_batch >= kMaxFramesForBatch ||
               !channel.HasFrame()) {
      session.streams().queues().FlushGathered();
    }
    if (may_go_on) session.GoOn();
    if (frame.has_value()) {
      session.completer().Help(kPollsBetweenFrames);
      continue;
    }
    const std::chrono::nanoseconds longest =
        session.sharing().gate() == nullptr ? kLongestSleep : session.sharing().gate()->Settle();
    const auto woken = [&] {
      receiving_thread.AssertHeld();
      return (!hold && channel.HasFrame()) || channel.closed() || session.MayGoOn() ||
             (!dropped && session.faults().lost() != CUDA_SUCCESS);
    };
    const bool soon = channel.own_bell().Wait(
        [&] {
          session.completer().Help(kPollsWhileIdle);
          return woken();
        },
        stages.yield, stages);
    if (soon) continue;
    // Somebody waits for what the device does. A thread of this process looks for it anyway; this
    // one also takes the client's next frame at once.
    if (session.completer().urgent() && channel.own_bell().Wait(
                                            [&] {
                                              session.completer().Help(kPollsWhileAwaiting);
                                              return !session.completer().urgent() || woken();
                                            },
                                            stages.await, awaiting))
      continue;
    session.completer().HelperSleeps();
    channel.own_bell().Wait(
        woken, hold ? std::min<std::chrono::nanoseconds>(Backlog::kPatience, longest) : longest,
        stages);
    session.completer().HelperIsBack();
  }
  return Status::Ok();
}

}  // namespace

Status Serve(DeviceSession& session) {
  Status ended = Loop(session);
  if (!ended.ok()) session.channel().Close(true);
  // Nobody is left to whom the worker could tell of a device that it waits for.
  if (session.joins() != nullptr) session.joins()->End();
  return ended;
}

}  // namespace cuspan::proxy
