#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

using RecordState = std::shared_ptr<EventRecordState>;

std::shared_ptr<Dependency> DependencyOf(const RecordState& record) {
  return {record, &record->submitted};
}

struct RecordOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    EventPool& events =
        record->timed ? session->streams().timing_events() : session->streams().points().events();
    const CUresult result = events.Record(stream->driver, record->driver_event);
    // Added before Finish: it may add a mark, later in the stream on the device, too.
    if (result == CUDA_SUCCESS)
      session->completer().Add(stream->progress, StreamPoint(record->driver_event.get()),
                               stream->submitted + 1, ReachRecord{record});
    Finish(result);
    if (result != CUDA_SUCCESS) {
      Fail(result);
      return SubmitResult::kSubmitted;
    }
    session->streams().queues().Open(record->submitted);
    return SubmitResult::kSubmitted;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override {
    const CUresult lost = session->faults().lost();
    Fail(lost != CUDA_SUCCESS ? lost : stream->broken);
  }
  // The record will never exist: report it as reached with an error, so no call waits forever.
  void Fail(CUresult result) CUSPAN_REQUIRES(receiving_thread) {
    record->complete.store(true, std::memory_order_release);
    session->channel().Post(
        EventReached{record->event, record->record, result, session->completer().pushed(), 0});
    session->streams().queues().Open(record->submitted);
  }

  RecordState record;
};

struct WaitOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    // No event if recording failed or the record never arrived: nothing to wait for.
    const CUevent event = record->driver_event.get();
    if (event == nullptr || record->complete.load(std::memory_order_acquire))
      return SubmitResult::kSubmitted;
    return Finish(
        session->driver().cuStreamWaitEvent(stream->driver, event, CU_EVENT_WAIT_DEFAULT));
  }

  RecordState record;
};

// Only waits for its dependency.
struct SignalWaitOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    return SubmitResult::kSubmitted;
  }
};

// Removes complete records, except the last one.
void Prune(Event& event) CUSPAN_REQUIRES(receiving_thread) {
  while (!event.live.empty()) {
    const auto oldest = event.live.begin();
    if (oldest->first >= event.records || !oldest->second->complete.load(std::memory_order_acquire))
      return;
    event.live.erase(oldest);
  }
}

}  // namespace

Status Handle(DeviceSession& session, const Origin&, const EventCreate& op) {
  // Driver events are created for each record.
  CUSPAN_RETURN_IF_ERROR(session.streams().events().CheckNew(op.event));
  auto event = std::make_shared<Event>();
  event->flags = op.flags;
  session.streams().events().Add(op.event, std::move(event));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin&, const EventDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Event> event,
                          session.streams().events().Take(op.event));
  // Records not received yet will never arrive.
  for (auto awaited = event->live.upper_bound(event->records); awaited != event->live.end();
       ++awaited)
    session.streams().queues().Open(awaited->second->submitted);
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const EventRecord& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Event> event, session.streams().events().Get(op.event));
  if (op.record != event->records + 1)
    return Status::Invalid("record {} of event 0x{:x} comes after record {}", op.record, op.event,
                           event->records);
  event->records = op.record;
  Prune(*event);
  RecordState& record = event->live[op.record];
  if (record == nullptr) record = std::make_shared<EventRecordState>(op.event, op.record);
  RecordOp recording(session, origin, std::move(stream));
  record->timed = (event->flags & CU_EVENT_DISABLE_TIMING) == 0;
  recording.record = record;
  return Queue(session, std::move(recording));
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamWaitEvent& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Event> event, session.streams().events().Get(op.event));
  if (op.record == 0) return Status::Ok();  // Never recorded: nothing to wait for.
  Prune(*event);
  auto found = event->live.find(op.record);
  if (found == event->live.end()) {
    if (op.record <= event->records) return Status::Ok();  // Complete.
    auto awaited = std::make_shared<EventRecordState>(op.event, op.record);
    found = event->live.emplace(op.record, std::move(awaited)).first;
  }
  WaitOp wait(session, origin, std::move(stream));
  wait.record = found->second;
  return Queue(session, std::move(wait), DependencyOf(found->second));
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamWaitSignal& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  std::shared_ptr<Dependency> dependency = session.streams().signals().Await(op.signal);
  if (dependency == nullptr) return Status::Ok();
  return Queue(session, SignalWaitOp(session, origin, std::move(stream)), std::move(dependency));
}

Status Handle(DeviceSession& session, const Origin&, const Signal& op) {
  if (const std::shared_ptr<Dependency> dependency = session.streams().signals().Arrive(op.signal))
    session.streams().queues().Open(*dependency);
  return Status::Ok();
}

}  // namespace cuspan::proxy
