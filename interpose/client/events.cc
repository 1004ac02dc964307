#include "interpose/client/events.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interpose/client/base/handles.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {
namespace {

// Limit of waiting for the proxy in Record: if it is further behind, it lacks more than CPU time.
constexpr std::chrono::milliseconds kLongestBehind{5};

// Also true if the event was reported and only waited for bytes, stored by now.
bool IsComplete(const Event& event) {
  if (event.complete()) return true;
  event.connection->coherence().BeforeWait(true);
  event.connection->receiver().TryShowStored();
  return event.complete();
}

// Returns the event's own failure, or a fault caused by a kernel in its context. After the loss of
// a device, events reached before it are still complete.
CUresult FailureOf(const Event& event) {
  if (event.failure() != CUDA_SUCCESS) return event.failure();
  const CUresult fault = event.connection->fault();
  return fault == CUDA_ERROR_DEVICE_UNAVAILABLE ? CUDA_SUCCESS : fault;
}

}  // namespace

CUresult Events::CreateOn(const std::shared_ptr<ContextConnection>& connection, unsigned flags,
                          std::uint64_t* event) {
  EventCreate create;
  create.event = NextHandle();
  create.flags = flags;
  if (const CUresult result = connection->Post(create); result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<Event>(create.event, connection, flags);
  const WriterLock lock(mutex_);
  events_.emplace(create.event, std::move(made));
  *event = create.event;
  return CUDA_SUCCESS;
}

CUresult Events::Create(unsigned flags, std::uint64_t* event) {
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.OpenCurrent(&connection); result != CUDA_SUCCESS)
    return result;
  if ((flags & CU_EVENT_INTERPROCESS) == 0) return CreateOn(connection, flags, event);
  auto shared = SharedEvent::Create();
  if (shared == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return AddShared(std::move(shared), flags, event);
}

CUresult Events::AddShared(std::shared_ptr<SharedEvent> shared, unsigned flags,
                           std::uint64_t* event) {
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.OpenCurrent(&connection); result != CUDA_SUCCESS)
    return result;
  const CUresult result = CreateOn(connection, flags, event);
  if (result == CUDA_SUCCESS) shared_.Add(*event, std::move(shared));
  return result;
}

std::shared_ptr<Event> Events::Find(std::uint64_t event) const {
  if (event == 0) return nullptr;
  auto& lately = ThisThread().events;
  if (auto known = lately.Find(event); known != nullptr)
    return known->destroyed.load(std::memory_order_acquire) ? nullptr : known;
  const ReaderLock lock(mutex_);
  const auto entry = events_.find(event);
  if (entry == events_.end() || entry->second->destroyed.load(std::memory_order_acquire))
    return nullptr;
  return lately.Keep(event, entry->second);
}

void Events::Erase(std::uint64_t event) {
  const WriterLock lock(mutex_);
  events_.erase(event);
}

CUresult Events::Destroy(std::uint64_t event) {
  shared_.Remove(event);
  const std::shared_ptr<Event> known = Find(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  known->destroyed.store(true);
  // Otherwise the last completion erases it.
  if (known->complete() && known->attended.load() == 0) Erase(event);
  EventDestroy destroy;
  destroy.event = event;
  return known->connection->Post(destroy);
}

CUresult Events::Record(std::uint64_t event, const StreamTarget& target) {
  if (const auto shared = shared_.Find(event)) return RecordShared(shared, target);
  const std::shared_ptr<Event> known = Find(event);
  if (known == nullptr || known->connection != target.connection) return CUDA_ERROR_INVALID_HANDLE;
  const MutexLock recording(known->recording);
  EventRecord record;
  record.event = event;
  record.stream = target.stream;
  record.record = known->recorded.load(std::memory_order_relaxed) + 1;
  known->recorded.store(record.record);
  const CUresult result = target.connection->Post(record);
  // Autotuners first launch a kernel waiting for a word of page-locked memory; the program writes
  // the word after the record. The measured kernels must be at the device by then.
  if (result == CUDA_SUCCESS && (known->flags & CU_EVENT_DISABLE_TIMING) == 0 &&
      target.connection->sharing() == Sharing::kMemory &&
      target.connection->coherence().KernelsUseHost())
    target.connection->channel().AwaitTaken(target.connection->last_posts().work(), kLongestBehind);
  return result;
}

CUresult Events::Query(std::uint64_t event) {
  if (const auto shared = shared_.Find(event))
    if (const CUresult result = shared->Query(); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<Event> known = Find(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool complete = IsComplete(*known);
  if (const CUresult failure = FailureOf(*known); failure != CUDA_SUCCESS) return failure;
  return complete ? known->connection->Synchronized(false) : CUDA_ERROR_NOT_READY;
}

CUresult Events::Synchronize(std::uint64_t event) {
  if (const auto shared = shared_.Find(event))
    if (const CUresult result = shared->Synchronize(); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<Event> known = Find(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::uint64_t wanted = known->recorded.load();
  const auto over = [&] {
    return known->reached.load() >= wanted || known->failure() != CUDA_SUCCESS ||
           known->connection->fault() != CUDA_SUCCESS;
  };
  if (!over()) known->connection->coherence().BeforeWait(false);
  const DeviceWait wait(known->connection->common(), known->connection->channel());
  if (!over() && (known->flags & CU_EVENT_BLOCKING_SYNC) == 0)
    known->connection->receiver().Watch(over);
  if (!over()) {
    known->attended.fetch_add(1);
    MutexLock lock(known->mutex);
    // Ends when it is reached, or when the receiver thread finds the device lost (Lost).
    known->connection->WaitLong(known->changed, lock, over);
    known->attended.fetch_sub(1);
  }
  if (const CUresult failure = FailureOf(*known); failure != CUDA_SUCCESS) return failure;
  // The device was lost during the wait.
  if (known->reached.load() < wanted) return known->connection->fault();
  return known->connection->Synchronized(false);
}

CUresult Events::ElapsedTime(std::uint64_t start, std::uint64_t end, float* milliseconds) {
  const std::shared_ptr<Event> first = Find(start);
  const std::shared_ptr<Event> second = Find(end);
  if (first == nullptr || second == nullptr || first->connection != second->connection)
    return CUDA_ERROR_INVALID_HANDLE;
  const Event* const both[] = {first.get(), second.get()};
  // Errors of either event precede CUDA_ERROR_NOT_READY, as in the driver.
  for (const Event* const event : both) {
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0 || event->recorded.load() == 0)
      return CUDA_ERROR_INVALID_HANDLE;
    if (event->failure() != CUDA_SUCCESS) return event->failure();
  }
  for (const Event* const event : both)
    if (!event->complete()) return CUDA_ERROR_NOT_READY;
  if (const CUresult fault = first->connection->fault(); fault != CUDA_SUCCESS) return fault;
  const double time = second->time.load() - first->time.load();
  if (std::isnan(time)) return CUDA_ERROR_UNKNOWN;  // The driver has failed to tell one of them.
  *milliseconds = static_cast<float>(time);
  return CUDA_SUCCESS;
}

CUresult Events::Wait(const StreamTarget& target, std::uint64_t event) {
  if (const auto shared = shared_.Find(event))
    return shared_.Hold(shared, target.connection, target.stream);
  const std::shared_ptr<Event> known = Find(event);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (known->connection == target.connection) {
    StreamWaitEvent wait;
    wait.stream = target.stream;
    wait.event = event;
    wait.record = known->recorded.load();
    return wait.record == 0 ? CUDA_SUCCESS : target.connection->Post(wait);
  }
  return WaitElsewhere(target, *known);
}

CUresult Events::WaitElsewhere(const StreamTarget& target, Event& event) {
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  if (!Hold(event, target.connection, wait.signal)) {
    target.connection->coherence().Follow(*event.connection);
    return event.failure();
  }
  // The signal may arrive before this op; the proxy expects this.
  return target.connection->Post(wait);
}

bool Events::Hold(Event& event, const std::shared_ptr<ContextConnection>& connection,
                  std::uint64_t signal) {
  const MutexLock lock(event.mutex);
  event.attended.fetch_add(1);
  const std::uint64_t recorded = event.recorded.load();
  if (event.failure() != CUDA_SUCCESS || event.reached.load() >= recorded) {
    event.attended.fetch_sub(1);
    return false;
  }
  event.held.push_back({recorded, connection, signal});
  return true;
}

CUresult Events::WhenReached(const StreamTarget& target, std::function<void(CUresult)> call) {
  std::uint64_t event = 0;
  if (const CUresult result = CreateOn(target.connection, CU_EVENT_DISABLE_TIMING, &event);
      result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Event> reached = Find(event);
  {
    const MutexLock lock(reached->mutex);
    reached->attended.fetch_add(1);
    reached->then = std::move(call);
  }
  const CUresult result = Record(event, target);
  const CUresult destroyed = Destroy(event);
  return result != CUDA_SUCCESS ? result : destroyed;
}

CUresult Events::Order(const StreamTarget& first, const StreamTarget& waiting) {
  std::uint64_t event = 0;
  if (const CUresult result = CreateOn(first.connection, CU_EVENT_DISABLE_TIMING, &event);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = Record(event, first);
  if (result == CUDA_SUCCESS) result = Wait(waiting, event);
  const CUresult destroyed = Destroy(event);
  return result != CUDA_SUCCESS ? result : destroyed;
}

CUresult Events::RecordShared(const std::shared_ptr<SharedEvent>& shared,
                              const StreamTarget& target) {
  const std::uint64_t number = shared->BeginRecord();
  const CUresult result =
      WhenReached(target, [shared, number](CUresult reached) { shared->Reached(number, reached); });
  if (result != CUDA_SUCCESS) shared->Reached(number, result);
  return result;
}

void Events::OnReached(const EventReached& reached) {
  std::shared_ptr<Event> event;
  {
    const ReaderLock lock(mutex_);
    const auto entry = events_.find(reached.event);
    if (entry == events_.end()) return;
    event = entry->second;
  }
  // Result of the last record; but a lost device stays lost.
  if (reached.result != CUDA_SUCCESS || event->connection->fault() == CUDA_SUCCESS)
    event->result.store(reached.result);
  // Only written by the thread receiving from the event's device.
  if (event->reached.load(std::memory_order_relaxed) < reached.record) {
    event->time.store(reached.time);
    event->reached.store(reached.record);
  }
  if (event->attended.load() != 0)
    Release(*event, reached.record, static_cast<CUresult>(reached.result));
  if (event->destroyed.load() && event->complete() && event->attended.load() == 0)
    Erase(reached.event);
}

void Events::Release(Event& event, std::optional<std::uint64_t> record, CUresult result) {
  std::vector<Event::Held> released;
  std::function<void(CUresult)> then;
  {
    const MutexLock lock(event.mutex);
    const auto still =
        std::partition(event.held.begin(), event.held.end(),
                       [&](const Event::Held& held) { return record && held.record != *record; });
    released.assign(still, event.held.end());
    event.held.erase(still, event.held.end());
    then = std::exchange(event.then, nullptr);
    event.attended.fetch_sub(static_cast<unsigned>(released.size()) + (then ? 1 : 0));
  }
  event.changed.notify_all();
  if (then) then(result);
  for (const Event::Held& held : released) {
    const auto connection = held.connection.lock();
    if (connection == nullptr) continue;
    Signal signal;
    signal.signal = held.signal;
    // A lost device has no waiting streams.
    if (!connection->coherence().FollowLater(event.connection, [connection, signal] {
          static_cast<void>(connection->Post(signal));
        }))
      connection->receiver().Post(signal);
  }
  if (!released.empty()) devices_.Wake();
}

void Events::Lost(const ContextConnection& lost) {
  std::vector<std::shared_ptr<Event>> failed;
  {
    const ReaderLock lock(mutex_);
    for (const auto& [id, event] : events_)
      if (event->connection.get() == &lost) failed.push_back(event);
  }
  for (const auto& event : failed) {
    event->result.store(lost.fault());
    // Streams of other devices must not wait forever for a lost device; queries of the event itself
    // return the error.
    Release(*event, std::nullopt, lost.fault());
  }
}

void Events::Forget(const ContextConnection& ended) {
  Lost(ended);
  const WriterLock lock(mutex_);
  std::erase_if(events_, [&](const auto& entry) {
    const bool gone = entry.second->connection.get() == &ended;
    if (gone) entry.second->destroyed.store(true);
    return gone;
  });
}

}  // namespace cuspan
