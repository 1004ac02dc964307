// Bulk copies between the host and the device, through the channel's staging slots.
//
// To the device: when the copy's turn in its stream has come the client is
// asked for the bytes (TransferClearToSend); each Chunk names a slot, whose bytes are
// copied from there; the slot goes back when the device has read it. The copy
// holds its stream until its last chunk was submitted.
// From the device: free slots are taken as they come, filled by the device and
// posted as Chunks in the order of their offsets.
//
// Threads: the receiving thread.
#pragma once

#include <memory>
#include <unordered_map>

#include "proxy/bulk/slot_turns.h"
#include "proxy/bulk/staged_copies.h"
#include "proxy/gpu/boxes.h"
#include "proxy/objects/array.h"
#include "proxy/objects/handle_table.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

struct Transfer {
  // `array` is what the box lies in, if any, and is kept as long as the transfer.
  Transfer(std::uint64_t id, Origin origin, std::shared_ptr<Stream> stream, const DeviceBox& box,
           std::uint64_t bytes, std::shared_ptr<Array> array = nullptr)
      : state(std::make_shared<TransferState>(id)),
        origin(origin),
        stream(std::move(stream)),
        box(box),
        bytes(bytes),
        array(std::move(array)) {}

  const std::shared_ptr<TransferState> state;
  const Origin origin;
  const std::shared_ptr<Stream> stream;
  const DeviceBox box;        // Its bytes, row after row.
  const std::uint64_t bytes;  // How many.
  const std::shared_ptr<Array> array;
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // To the device: the client has been asked for the bytes.
  bool wanted CUSPAN_GUARDED_BY(receiving_thread) = false;
};

class Transfers {
 public:
  Transfers(const Driver& driver, Channel& channel, Faults& faults, StreamQueues& queues,
            EventPool& events, Completer& completer, Timeline& timeline)
      : channel_(channel),
        faults_(faults),
        queues_(queues),
        events_(events),
        completer_(completer),
        staged_(driver, events, completer, timeline) {}

  // A copy to the device that has arrived. kInvalid when its number is in use.
  Status Announce(const std::shared_ptr<Transfer>& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Its turn has come.
  SubmitResult BeginToDevice(Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // A piece of it has come. kInvalid when it is not one that was asked for.
  Status TakeChunk(const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);

  // The turn of a copy from the device has come.
  SubmitResult BeginFromDevice(const std::shared_ptr<Transfer>& transfer)
      CUSPAN_REQUIRES(receiving_thread);
  // Whether one of them waits for a slot and there is one. Cheap; for Bell::Wait.
  bool SlotCameFree() CUSPAN_REQUIRES(receiving_thread) { return turns_.MayGoOn(channel_); }
  // Goes on with those that wait.
  void UseFreeSlots() CUSPAN_REQUIRES(receiving_thread);

  // Ends a transfer that can not go on; its op counts as submitted.
  void Fail(Transfer& transfer, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; the queues have dropped the copies that waited for slots.
  void Forget() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Copies one piece into `slot`; false when the transfer failed.
  bool SubmitFromDevice(Transfer& transfer, std::uint32_t slot) CUSPAN_REQUIRES(receiving_thread);

  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  EventPool& events_;
  Completer& completer_;
  StagedCopies staged_;
  // To the device: from Announce to the last chunk. A failed one stays, since chunks of it may be
  // under way.
  std::unordered_map<std::uint64_t, std::shared_ptr<Transfer>> to_device_
      CUSPAN_GUARDED_BY(receiving_thread);
  // From the device: each that waits for a slot holds its stream.
  SlotTurns<Transfer> turns_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
