// Transfers of a copy's bytes between the program's memory and a proxy, for any op.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "interpose/client/base/thread_state.h"
#include "interpose/client/connection/early_copy.h"
#include "interpose/client/stream_target.h"

namespace cuspan {

// Posts `op`, a copy to a device, in the order of `there`, and sends it the bytes at `source`:
// before it returns, or `later`. `stable`: no work before the copy can still write them.
template <typename Op>
CUresult SendBytes(const StreamTarget& there, Op& op, const std::byte* source, std::uint64_t bytes,
                   const HostRows& rows, bool later, bool stable) {
  OutgoingTransfers& transfers = there.connection->transfers().outgoing();
  op.stream = there.stream;
  // A post concerning shared memory may wait for other transfers: this one must not hold a slot.
  if (stable && !there.connection->coherence().Concerns(op)) {
    const auto sent = SendEarly(transfers, op, source, bytes, rows, later,
                                [&](const Op& early) { return there.connection->Post(early); });
    if (sent) return *sent;
  }
  if (later)
    if (const CUresult started = transfers.StartSender(); started != CUDA_SUCCESS) return started;
  op.transfer = transfers.Begin(SpanOf(rows, source, 0, bytes));
  if (const CUresult result = there.connection->Post(op); result != CUDA_SUCCESS) {
    static_cast<void>(transfers.Forget(op.transfer));
    return result;
  }
  if (later) {
    transfers.SendLater(op.transfer, source, bytes, rows);
    return CUDA_SUCCESS;
  }
  const DeviceWait wait(there.connection->common(), there.connection->channel());
  there.connection->receiver().Watch([&] { return transfers.MaySend(op.transfer); });
  const CUresult result = transfers.Send(op.transfer, source, bytes, rows);
  return result != CUDA_SUCCESS ? result : there.connection->ConsumePostedFailure();
}

// The same from a device. Returns when the bytes are stored, or at once if `later`.
template <typename Op>
CUresult ReceiveBytes(const StreamTarget& there, Op& op, std::byte* destination,
                      std::uint64_t bytes, const HostRows& rows, bool later) {
  Transfers& transfers = there.connection->transfers();
  auto incoming = std::make_shared<Incoming>();
  incoming->destination = destination;
  incoming->bytes = bytes;
  incoming->rows = rows;
  op.stream = there.stream;
  op.transfer = transfers.BeginIncoming(incoming);
  std::uint64_t sequence = 0;
  if (const CUresult result = there.connection->Post(op, &sequence); result != CUDA_SUCCESS) {
    static_cast<void>(transfers.Forget(op.transfer));
    return result;
  }
  if (later) return CUDA_SUCCESS;
  const DeviceWait wait(there.connection->common(), there.connection->channel());
  there.connection->receiver().Watch(
      [&] { return incoming->complete.load(std::memory_order_acquire); });
  const CUresult result = transfers.WaitComplete(*incoming);
  if (result == CUDA_SUCCESS)
    ThisThread().finished_copy = {there.connection->number(), there.stream, sequence};
  return result != CUDA_SUCCESS ? result : there.connection->ConsumePostedFailure();
}

}  // namespace cuspan
