// Events of all devices, those of several processes among them (CU_EVENT_INTERPROCESS), and the
// order that they make between streams.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/devices.h"
#include "interpose/client/event.h"
#include "interpose/client/shared_event.h"
#include "interpose/client/stream_target.h"

namespace cuspan {

// Any thread, but not the receiver's where not said. Results are the driver's.
class Events final : public ContextTable {
 public:
  explicit Events(Devices* devices) : devices_(*devices) {}
  Events(const Events&) = delete;

  // On the current device.
  CUresult Create(unsigned flags, std::uint64_t* event);
  // One of another process, as an event of the current device.
  CUresult AddShared(std::shared_ptr<SharedEvent> shared, unsigned flags, std::uint64_t* event);
  // On a device that need not be the current one.
  CUresult CreateOn(const std::shared_ptr<ContextConnection>& connection, unsigned flags,
                    std::uint64_t* event);
  CUresult Destroy(std::uint64_t event);
  // What the event shares with other processes; null when it is none of those.
  std::shared_ptr<SharedEvent> FindShared(std::uint64_t event) { return shared_.Find(event); }

  CUresult Record(std::uint64_t event, const StreamTarget& target);
  CUresult Query(std::uint64_t event);
  CUresult Synchronize(std::uint64_t event);
  CUresult ElapsedTime(std::uint64_t start, std::uint64_t end, float* milliseconds);
  // The stream goes on when the event's latest record (as of now) is reached,
  // also when it belongs to another device.
  CUresult Wait(const StreamTarget& target, std::uint64_t event);

  // `call` runs when the stream has come so far. The stream does not wait for it, and the thread
  // that receives calls it: it must not wait for anything.
  CUresult WhenReached(const StreamTarget& target, std::function<void(CUresult)> call);
  // Makes `waiting` wait for what is in `first` now, on whatever devices they are.
  CUresult Order(const StreamTarget& first, const StreamTarget& waiting);
  // Runs op(const StreamTarget&) → CUresult in the order of `target` on `connection`, which may be
  // another device's.
  template <typename Use>
  CUresult OnDevice(const StreamTarget& target,
                    const std::shared_ptr<ContextConnection>& connection, Use&& op) {
    if (connection == target.connection) return op(target);
    StreamTarget there{connection, 0};
    CUresult result = connection->OwnStream(&there.stream);
    if (result == CUDA_SUCCESS) result = Order(target, there);
    if (result == CUDA_SUCCESS) result = op(there);
    if (result == CUDA_SUCCESS) result = Order(there, target);
    return result;
  }

  // By the thread that receives.
  void OnReached(const EventReached& reached);
  void Forget(const ContextConnection& ended) override;
  void Lost(const ContextConnection& lost) override;

 private:
  // Null for unknown and destroyed events.
  std::shared_ptr<Event> Find(std::uint64_t event) const;
  void Erase(std::uint64_t event);
  CUresult RecordShared(const std::shared_ptr<SharedEvent>& shared, const StreamTarget& target);
  CUresult WaitElsewhere(const StreamTarget& target, Event& event);
  // The signal is given to `connection` when what was recorded is reached. False when it is
  // already.
  static bool Hold(Event& event, const std::shared_ptr<ContextConnection>& connection,
                   std::uint64_t signal);
  // Lets those go on who attend to the event: those who wait for this record of it, or, when its
  // device is lost, all.
  void Release(Event& event, std::optional<std::uint64_t> record, CUresult result);

  Devices& devices_;
  SharedEvents shared_;
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Event>> events_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
