// Bulk copies between host and device, through the channel's staging slots.
//
// Host to device: when the stream has reached the copy, the client gets clear to send
// (TransferClearToSend). Each Chunk names a slot with bytes to copy. The slot is returned when the
// device has read it. The copy holds its stream until its last chunk was submitted. Device to host:
// the device fills free slots. They are posted as Chunks in the order of their offsets.
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
  // `array` contains the box, if any. It is kept as long as the transfer.
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
  const DeviceBox box;        // Location of the bytes, row after row.
  const std::uint64_t bytes;  // Their number.
  const std::shared_ptr<Array> array;
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Host to device: the client is clear to send the bytes.
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

  // Registers a received copy to the device. kInvalid if its number is in use.
  Status Announce(const std::shared_ptr<Transfer>& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Begins it: its stream has reached it.
  SubmitResult BeginToDevice(Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Handles a chunk of a copy to the device. kInvalid if it was not requested.
  Status ReceiveChunk(const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);

  // Begins a copy from the device: its stream has reached it.
  SubmitResult BeginFromDevice(const std::shared_ptr<Transfer>& transfer)
      CUSPAN_REQUIRES(receiving_thread);
  // True if a copy from the device waits and a slot is free. Cheap; for Bell::Wait.
  bool SlotCameFree() CUSPAN_REQUIRES(receiving_thread) { return slot_queue_.MayGoOn(channel_); }
  // Continues waiting copies.
  void UseFreeSlots() CUSPAN_REQUIRES(receiving_thread);

  // Ends a failed transfer; its op counts as submitted.
  void Fail(Transfer& transfer, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; the queues have dropped copies waiting for slots.
  void Forget() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Copies one piece into `slot`. Returns false if the transfer failed.
  bool SubmitFromDevice(Transfer& transfer, std::uint32_t slot) CUSPAN_REQUIRES(receiving_thread);

  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  EventPool& events_;
  Completer& completer_;
  StagedCopies staged_;
  // Host to device, from Announce to the last chunk. A failed transfer stays: chunks of it may be
  // in flight.
  std::unordered_map<std::uint64_t, std::shared_ptr<Transfer>> to_device_
      CUSPAN_GUARDED_BY(receiving_thread);
  // Device to host: each copy waiting for a slot holds its stream.
  SlotQueue<Transfer> slot_queue_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
