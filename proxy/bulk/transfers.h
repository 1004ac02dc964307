// Bulk copies between the host and the device, through the channel's staging slots.
//
// To the device: when the copy's turn in its stream has come the client is
// asked for the bytes (TransferWanted); each Chunk names a slot, whose bytes are
// copied from there; the slot goes back when the device has read it. The copy
// holds its stream until its last chunk was submitted.
// From the device: free slots are taken as they come, filled by the device and
// posted as Chunks in the order of their offsets.
//
// Threads: the receiving thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "proxy/gpu/boxes.h"
#include "proxy/objects/array.h"
#include "proxy/objects/handle_table.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

struct Transfer {
  Transfer(std::uint64_t id, Origin origin, std::shared_ptr<Stream> stream, std::uint64_t address,
           std::uint64_t bytes)
      : state(std::make_shared<TransferState>(id)),
        origin(origin),
        stream(std::move(stream)),
        address(address),
        bytes(bytes) {}

  const std::shared_ptr<TransferState> state;
  const Origin origin;
  const std::shared_ptr<Stream> stream;
  const std::uint64_t address;  // On the device.
  const std::uint64_t bytes;
  // The box that the bytes are, row after row; none: one run at `address`.
  std::optional<DeviceBox> box;
  std::shared_ptr<Array> array;  // That the box lies in, kept as long as the transfer.
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // To the device:
  bool wanted CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // The client has been asked for the bytes.
};

class Transfers {
 public:
  Transfers(const Driver& driver, Channel& channel, Faults& faults, StreamQueues& queues,
            EventPool& events, Completer& completer, Timeline& timeline)
      : driver_(driver),
        channel_(channel),
        faults_(faults),
        queues_(queues),
        events_(events),
        completer_(completer),
        timeline_(timeline) {}

  // A copy to the device that has arrived. kInvalid when its number is in use.
  Status Announce(const std::shared_ptr<Transfer>& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Its turn has come.
  Turn BeginToDevice(Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // A piece of it has come. kInvalid when it is not one that was asked for.
  Status TakeChunk(const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);

  // The turn of a copy from the device has come.
  Turn BeginFromDevice(const std::shared_ptr<Transfer>& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Whether one of them waits for a slot and there is one. Cheap; for Bell::Wait.
  bool SlotCameFree() CUSPAN_REQUIRES(receiving_thread);
  // Goes on with those that wait.
  void UseFreeSlots() CUSPAN_REQUIRES(receiving_thread);

  // Ends a transfer that can not go on; its op counts as submitted.
  void Fail(Transfer& transfer, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; the queues have dropped the copies that waited for slots.
  void Forget() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Copies one piece into `slot`; false when the transfer failed.
  bool SubmitFromDevice(Transfer& transfer, std::uint32_t slot) CUSPAN_REQUIRES(receiving_thread);
  std::optional<std::uint32_t> TakeSlot() CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  EventPool& events_;
  Completer& completer_;
  Timeline& timeline_;
  // To the device: from Announce to the last chunk. A failed one stays, since chunks of it may be
  // under way.
  std::unordered_map<std::uint64_t, std::shared_ptr<Transfer>> to_device_
      CUSPAN_GUARDED_BY(receiving_thread);
  // From the device: those that wait for a slot, each holding its stream.
  std::deque<std::shared_ptr<Transfer>> slotless_ CUSPAN_GUARDED_BY(receiving_thread);
  std::optional<std::uint32_t> spare_slot_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
