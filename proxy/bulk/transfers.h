// Bulk copies between host and device, through the channel's staging slots.
//
// Host to device: when the stream has reached the copy, the client gets clear to send
// (TransferClearToSend). Each Chunk names a slot with bytes to copy. The slot is returned to the
// client when the device has read its bytes. The copy holds its stream until its last chunk was
// submitted. Chunks of an early copy may come before its stream has reached it. Their bytes are
// then kept in memory, and submitted from there, like those of a CopyToDeviceInline.
//
// Device to host: the copy takes free slots. When the device has filled one, the completer sends it
// as a Chunk, in the order of the offsets.
//
// Threads: the receiving thread. Completions run on the completer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proxy/bulk/slot_queue.h"
#include "proxy/bulk/staged_copies.h"
#include "proxy/gpu/boxes.h"
#include "proxy/objects/array.h"
#include "proxy/objects/handle_table.h"
#include "proxy/streams/pending_limit.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

struct Transfer {
  // `array`: the array with the box, or null. It lives at least as long as the transfer.
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
  const DeviceBox box;        // Device memory of the copy. Its bytes are numbered row after row.
  const std::uint64_t bytes;  // Their number.
  const std::shared_ptr<Array> array;
  // The copy of a file by the client: it ends when the client says so (FileDone), perhaps before
  // its last byte. The functions of Transfers then hold its stream until the caller releases it.
  bool open_ended CUSPAN_GUARDED_BY(receiving_thread) = false;
  CUresult result CUSPAN_GUARDED_BY(receiving_thread) = CUDA_SUCCESS;  // Failure of the driver.
  // Host to device: chunks may come before clear to send.
  bool early CUSPAN_GUARDED_BY(receiving_thread) = false;
  // Chunks received before, and bytes of all chunks received so far.
  struct KeptChunk {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<KeptChunk> kept CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t received CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Bytes submitted to the driver so far.
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Host to device: the copy has begun. Clear to send was posted, or will be.
  bool clear_to_send CUSPAN_GUARDED_BY(receiving_thread) = false;
};

class Transfers {
 public:
  Transfers(const Driver& driver, Channel& channel, Faults& faults, StreamQueues& queues,
            PendingLimit& pending, EventPool& events, Completer& completer, Timeline& timeline)
      : channel_(channel),
        faults_(faults),
        queues_(queues),
        pending_(pending),
        events_(events),
        completer_(completer),
        staged_(driver, events, completer, timeline) {}

  // Registers a received copy to the device. As in ReceiveChunk, kInvalid is a violation of the
  // protocol, and the caller ends the session: the number is in use, or too many bytes are early.
  Status Announce(const std::shared_ptr<Transfer>& transfer, bool early)
      CUSPAN_REQUIRES(receiving_thread);
  // Begins the copy; called when it is next in its stream.
  SubmitResult BeginToDevice(Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Ends an open-ended copy to the device: no more chunks of it will come.
  void EndToDevice(const Transfer& transfer) CUSPAN_REQUIRES(receiving_thread) {
    to_device_.erase(transfer.state->id);
  }
  // Handles a chunk of a copy to the device. kInvalid if it was not requested, or names a wrong
  // slot or wrong bytes.
  Status ReceiveChunk(const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);

  // Begins a copy from the device; called when it is next in its stream.
  SubmitResult BeginFromDevice(const std::shared_ptr<Transfer>& transfer)
      CUSPAN_REQUIRES(receiving_thread);
  // True if a copy from the device waits and a slot is free; reserves the slot for it. Cheap:
  // called while the thread waits.
  bool SlotCameFree() CUSPAN_REQUIRES(receiving_thread) { return slot_queue_.MayGoOn(channel_); }
  // Continues waiting copies.
  void UseFreeSlots() CUSPAN_REQUIRES(receiving_thread);

  // Reports the failure of a transfer to the client. The caller ends its op: it returns kSubmitted,
  // or releases the stream.
  void Fail(Transfer& transfer, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  // Removes the copies waiting for slots; called when the device is lost, after the queues have
  // dropped all ops.
  void Forget() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Submits the chunks kept so far. Returns false if the transfer failed.
  bool SubmitKept(Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // A transfer, or its failure, will need no more chunks.
  void ForgetIfReceived(const Transfer& transfer) CUSPAN_REQUIRES(receiving_thread);
  // Copies one piece into `slot`. Returns false if the transfer failed.
  bool SubmitFromDevice(Transfer& transfer, std::uint32_t slot) CUSPAN_REQUIRES(receiving_thread);

  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  PendingLimit& pending_;
  EventPool& events_;
  Completer& completer_;
  StagedCopies staged_;
  // Host to device, from Announce to the last chunk. A transfer failing before clear to send is
  // removed, if it is not early. One failing later stays until its last chunk, or until the session
  // ends: chunks of it may be in flight.
  std::unordered_map<std::uint64_t, std::shared_ptr<Transfer>> to_device_
      CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t early_bytes_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Not clear to send yet.
  // Device to host: each copy waiting for a slot holds its stream.
  SlotQueue<Transfer> slot_queue_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
