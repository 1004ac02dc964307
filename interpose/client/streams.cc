// Streams and events of the session.
#include <algorithm>
#include <utility>

#include "interpose/client/handles.h"
#include "interpose/client/session.h"

namespace cuspan {

CUresult Session::CreateStream(unsigned flags, int priority, std::uint64_t* stream) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = flags;
  create.priority = priority;
  if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<const Stream>(
      Stream{create.stream, link->device(), link->number(), flags, priority});
  std::lock_guard lock(streams_mutex_);
  streams_.emplace(create.stream, std::move(made));
  *stream = create.stream;
  return CUDA_SUCCESS;
}

CUresult Session::DestroyStream(std::uint64_t stream) {
  std::shared_ptr<const Stream> known;
  {
    std::lock_guard lock(streams_mutex_);
    const auto entry = streams_.find(stream);
    if (entry == streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    known = entry->second;
    streams_.erase(entry);
  }
  const std::shared_ptr<Link> link = OpenedLink(known->device);
  if (link == nullptr || link->number() != known->link) return CUDA_ERROR_INVALID_HANDLE;
  StreamDestroy destroy;
  destroy.stream = stream;
  return link->Post(destroy);
}

void Session::DestroyThreadStream(int device, std::uint64_t link_number, std::uint64_t stream) {
  const std::shared_ptr<Link> link = OpenedLink(device);
  if (link == nullptr || link->number() != link_number) return;
  StreamDestroy destroy;
  destroy.stream = stream;
  static_cast<void>(link->Post(destroy));  // A lost device has no stream any more.
}

std::shared_ptr<const Stream> Session::FindStream(std::uint64_t stream) const {
  std::shared_lock lock(streams_mutex_);
  const auto entry = streams_.find(stream);
  return entry == streams_.end() ? nullptr : entry->second;
}

CUresult Session::ThreadStream(const std::shared_ptr<Link>& link, std::uint64_t* stream) {
  auto& own = ThisThread().own_streams;
  const auto device = static_cast<std::size_t>(link->device());
  if (own.size() <= device) own.resize(device + 1);
  if (own[device].link != link->number()) {
    StreamCreate create;
    create.stream = NextHandle();
    create.flags = CU_STREAM_DEFAULT;
    if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
    own[device] = {create.stream, link->number()};
  }
  *stream = own[device].stream;
  return CUDA_SUCCESS;
}

CUresult Session::ResolveStream(void* stream, DefaultStream meaning, StreamTarget* target) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  const bool own = value == 2 || (value == 0 && meaning == DefaultStream::kPerThread);
  if (value <= 2) {
    if (const CUresult result = CurrentLink(&target->link); result != CUDA_SUCCESS) return result;
    target->stream = 0;
    return own ? ThreadStream(target->link, &target->stream) : CUDA_SUCCESS;
  }
  const std::shared_ptr<const Stream> known = FindStream(value);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  target->link = OpenedLink(known->device);
  if (target->link == nullptr || target->link->number() != known->link)
    return CUDA_ERROR_INVALID_HANDLE;
  target->stream = value;
  return target->link->fault();
}

CUresult Session::SynchronizeStream(const StreamTarget& target) {
  StreamSynchronize op;
  op.stream = target.stream;
  const CUresult result = target.link->CallAndStore(op);
  return result != CUDA_SUCCESS ? result : target.link->TakePostedFailure();
}

CUresult Session::QueryStream(const StreamTarget& target) {
  StreamQuery op;
  op.stream = target.stream;
  const CUresult result = target.link->CallAndStore(op);
  return result != CUDA_SUCCESS ? result : target.link->TakePostedFailure();
}

CUresult Session::CreateEventOn(const std::shared_ptr<Link>& link, unsigned flags,
                                std::uint64_t* event) {
  EventCreate create;
  create.event = NextHandle();
  create.flags = flags;
  if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<Event>();
  made->id = create.event;
  made->link = link;
  made->flags = flags;
  std::lock_guard lock(events_mutex_);
  events_.emplace(create.event, std::move(made));
  *event = create.event;
  return CUDA_SUCCESS;
}

CUresult Session::CreateEvent(unsigned flags, std::uint64_t* event) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  return CreateEventOn(link, flags, event);
}

std::shared_ptr<Event> Session::FindEvent(std::uint64_t event) const {
  std::shared_lock lock(events_mutex_);
  const auto entry = events_.find(event);
  if (entry == events_.end()) return nullptr;
  std::lock_guard event_lock(entry->second->mutex);
  return entry->second->destroyed ? nullptr : entry->second;
}

CUresult Session::DestroyEvent(std::uint64_t event) {
  const std::shared_ptr<Event> known = FindEvent(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  bool idle = false;
  {
    std::lock_guard lock(known->mutex);
    known->destroyed = true;
    idle = known->reached >= known->recorded;
  }
  if (idle) {
    std::lock_guard lock(events_mutex_);
    events_.erase(event);
  }
  EventDestroy destroy;
  destroy.event = event;
  return known->link->Post(destroy);
}

CUresult Session::RecordEvent(std::uint64_t event, const StreamTarget& target) {
  const std::shared_ptr<Event> known = FindEvent(event);
  if (known == nullptr || known->link != target.link) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard recording(known->recording);
  EventRecord record;
  record.event = event;
  record.stream = target.stream;
  {
    std::lock_guard lock(known->mutex);
    record.record = ++known->recorded;
  }
  return target.link->Post(record);
}

CUresult Session::QueryEvent(std::uint64_t event) {
  const std::shared_ptr<Event> known = FindEvent(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    std::lock_guard lock(known->mutex);
    if (known->result != CUDA_SUCCESS) return known->result;
    if (known->reached < known->recorded) return CUDA_ERROR_NOT_READY;
  }
  return known->link->Synchronized(false);
}

CUresult Session::SynchronizeEvent(std::uint64_t event) {
  const std::shared_ptr<Event> known = FindEvent(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_lock lock(known->mutex);
  const std::uint64_t wanted = known->recorded;
  known->changed.wait(lock,
                      [&] { return known->reached >= wanted || known->result != CUDA_SUCCESS; });
  const CUresult result = known->result;
  lock.unlock();
  return result != CUDA_SUCCESS ? result : known->link->Synchronized(false);
}

CUresult Session::ElapsedTime(std::uint64_t start, std::uint64_t end, float* milliseconds) {
  const std::shared_ptr<Event> first = FindEvent(start);
  const std::shared_ptr<Event> second = FindEvent(end);
  if (first == nullptr || second == nullptr || first->link != second->link)
    return CUDA_ERROR_INVALID_HANDLE;
  // What is wrong with either comes before what is not ready yet, as in the driver.
  for (const auto& event : {first, second}) {
    std::lock_guard lock(event->mutex);
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0 || event->recorded == 0)
      return CUDA_ERROR_INVALID_HANDLE;
    if (event->result != CUDA_SUCCESS) return event->result;
  }
  for (const auto& event : {first, second}) {
    std::lock_guard lock(event->mutex);
    if (event->reached < event->recorded) return CUDA_ERROR_NOT_READY;
  }
  EventElapsed op;
  op.start = start;
  op.end = end;
  EventElapsed::Reply reply;
  const CUresult result = first->link->Call(op, &reply);
  if (result == CUDA_SUCCESS) *milliseconds = reply.milliseconds;
  return result;
}

CUresult Session::WaitEvent(const StreamTarget& target, std::uint64_t event) {
  const std::shared_ptr<Event> known = FindEvent(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (known->link == target.link) {
    StreamWaitEvent wait;
    wait.stream = target.stream;
    wait.event = event;
    {
      std::lock_guard lock(known->mutex);
      wait.record = known->recorded;
    }
    return wait.record == 0 ? CUDA_SUCCESS : target.link->Post(wait);
  }
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  {
    std::lock_guard lock(known->mutex);
    if (known->result != CUDA_SUCCESS) return known->result;
    if (known->reached >= known->recorded) return CUDA_SUCCESS;
    known->held.push_back({known->recorded, target.link, wait.signal});
  }
  // The signal may overtake this, which the proxy expects.
  return target.link->Post(wait);
}

void Session::OnEventReached(const EventReached& reached) {
  std::shared_ptr<Event> event;
  {
    std::shared_lock lock(events_mutex_);
    const auto entry = events_.find(reached.event);
    if (entry == events_.end()) return;
    event = entry->second;
  }
  std::vector<Event::Held> released;
  std::function<void(CUresult)> then;
  bool over = false;
  {
    std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, reached.record);
    if (reached.result != CUDA_SUCCESS) event->result = static_cast<CUresult>(reached.result);
    const auto still =
        std::partition(event->held.begin(), event->held.end(),
                       [&](const Event::Held& held) { return held.record > event->reached; });
    released.assign(still, event->held.end());
    event->held.erase(still, event->held.end());
    over = event->destroyed && event->reached >= event->recorded;
    then = std::exchange(event->then, nullptr);
  }
  event->changed.notify_all();
  if (then) then(static_cast<CUresult>(reached.result));
  for (const Event::Held& held : released) {
    Signal signal;
    signal.signal = held.signal;
    if (const auto link = held.link.lock()) link->PostFromReceiver(signal);
  }
  if (!released.empty()) bell_.Ring();
  if (over) {
    std::lock_guard lock(events_mutex_);
    events_.erase(reached.event);
  }
}

void Session::FailEvents(const Link& link) {
  std::vector<std::shared_ptr<Event>> lost;
  {
    std::shared_lock lock(events_mutex_);
    for (const auto& [id, event] : events_)
      if (event->link.get() == &link) lost.push_back(event);
  }
  for (const auto& event : lost) {
    std::vector<Event::Held> released;
    std::function<void(CUresult)> then;
    {
      std::lock_guard lock(event->mutex);
      event->result = link.fault();
      released.swap(event->held);
      then = std::exchange(event->then, nullptr);
    }
    event->changed.notify_all();
    if (then) then(link.fault());
    // Streams of other devices must not be held for ever by a device that is gone;
    // whoever asks about the event itself is told.
    for (const Event::Held& held : released) {
      Signal signal;
      signal.signal = held.signal;
      if (const auto other = held.link.lock()) other->PostFromReceiver(signal);
    }
  }
  bell_.Ring();
}

}  // namespace cuspan
