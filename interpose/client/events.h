// Events of all devices, interprocess ones (CU_EVENT_INTERPROCESS) included, and the order they
// establish between streams.
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

// Threads: any; the receiver thread only if noted. Results are the driver's.
class Events final : public ContextTable {
 public:
  explicit Events(Devices* devices) : devices_(*devices) {}
  Events(const Events&) = delete;

  // Creates an event on the current device.
  CUresult Create(unsigned flags, std::uint64_t* event);
  // Adds an event of another process as an event of the current device.
  CUresult AddShared(std::shared_ptr<SharedEvent> shared, unsigned flags, std::uint64_t* event);
  // Creates an event on any device.
  CUresult CreateOn(const std::shared_ptr<ContextConnection>& connection, unsigned flags,
                    std::uint64_t* event);
  CUresult Destroy(std::uint64_t event);
  // Returns the state shared with other processes; null for other events.
  std::shared_ptr<SharedEvent> FindShared(std::uint64_t event) { return shared_.Find(event); }
  // True if a stream may be waiting for an event of another process.
  bool AwaitOthers() const { return shared_.holding(); }

  CUresult Record(std::uint64_t event, const StreamTarget& target);
  CUresult Query(std::uint64_t event);
  CUresult Synchronize(std::uint64_t event);
  CUresult ElapsedTime(std::uint64_t start, std::uint64_t end, float* milliseconds);
  // Makes the stream wait for the event's latest record as of now, also on another device.
  CUresult Wait(const StreamTarget& target, std::uint64_t event);

  // Runs `call` on the receiving thread when the stream reaches this point: it must not block. The
  // stream does not wait for it.
  CUresult WhenReached(const StreamTarget& target, std::function<void(CUresult)> call);
  // Makes `waiting` wait for the current work of `first`, on any devices.
  CUresult Order(const StreamTarget& first, const StreamTarget& waiting);
  // Runs op(const StreamTarget&) → CUresult in the order of `target` on `connection`, perhaps
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

  // Called by the receiving thread.
  void OnReached(const EventReached& reached);
  void Forget(const ContextConnection& ended) override;
  void Lost(const ContextConnection& lost) override;

 private:
  // Null for unknown and destroyed events.
  std::shared_ptr<Event> Find(std::uint64_t event) const;
  void Erase(std::uint64_t event);
  CUresult RecordShared(const std::shared_ptr<SharedEvent>& shared, const StreamTarget& target);
  CUresult WaitElsewhere(const StreamTarget& target, Event& event);
  // Registers `signal`, to be sent to `connection` when the latest record is reached. False if it
  // is reached already.
  static bool Hold(Event& event, const std::shared_ptr<ContextConnection>& connection,
                   std::uint64_t signal);
  // Releases the waits for this record of the event, or all waits if its device is lost.
  void Release(Event& event, std::optional<std::uint64_t> record, CUresult result);

  Devices& devices_;
  SharedEvents shared_;
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Event>> events_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
