#include "proxy/bulk/transfers.h"

#include <algorithm>
#include <utility>

namespace cuspan::proxy {

Status Transfers::Announce(const std::shared_ptr<Transfer>& transfer, bool early) {
  if (!to_device_.emplace(transfer->state->id, transfer).second)
    return Status::Invalid("transfer {} is already under way", transfer->state->id);
  if (!early) return Status::Ok();
  if (transfer->bytes > kMaxEarlyBytes || transfer->bytes > kMaxEarlyInAll - early_bytes_)
    return Status::Invalid("the early copy {} of {} bytes, with {} bytes of others before",
                           transfer->state->id, transfer->bytes, early_bytes_);
  transfer->early = true;
  early_bytes_ += transfer->bytes;
  return Status::Ok();
}

SubmitResult Transfers::BeginToDevice(Transfer& transfer) {
  if (transfer.bytes == 0) {
    to_device_.erase(transfer.state->id);
    return SubmitResult::kSubmitted;
  }
  if (transfer.early) {
    transfer.clear_to_send = true;
    early_bytes_ -= transfer.bytes;
    channel_.Post(TransferClearToSend{transfer.state->id, completer_.pushed()});
    const bool submitted = SubmitKept(transfer);
    ForgetIfReceived(transfer);
    if (!submitted) return SubmitResult::kSubmitted;
    return transfer.submitted == transfer.bytes ? SubmitResult::kSubmitted : SubmitResult::kHeld;
  }
  // Chunks on their way to the client may hold new contents of this copy's source. The client has
  // to store them before it sends.
  PooledEvent event;
  if (completer_.chunks_pending()) {
    if (const CUresult result = faults_.Check(events_.Record(transfer.stream->driver, event));
        result != CUDA_SUCCESS) {
      Fail(transfer, result);
      return SubmitResult::kSubmitted;
    }
  }
  transfer.clear_to_send = true;
  const Answer post_clear_to_send = [this, id = transfer.state->id](CUresult result,
                                                                    std::uint64_t chunks) {
    // A lost device is reported by DeviceFault.
    if (result == CUDA_SUCCESS) channel_.Post(TransferClearToSend{id, chunks});
  };
  if (event.get() == nullptr)
    post_clear_to_send(CUDA_SUCCESS, completer_.pushed());
  else
    completer_.Add(transfer.stream->progress, std::move(event), transfer.stream->submitted,
                   post_clear_to_send);
  return SubmitResult::kHeld;
}

Status Transfers::ReceiveChunk(const Chunk& chunk) {
  const std::byte* bytes = channel_.IncomingSlot(chunk.slot);
  if (bytes == nullptr)
    return Status::Invalid("a chunk in the unknown staging slot {}", chunk.slot);
  if (chunk.bytes == 0 || chunk.bytes > channel_.layout().staging_bytes)
    return Status::Invalid("a chunk of {} bytes in a staging slot of {} bytes", chunk.bytes,
                           channel_.layout().staging_bytes);
  const auto found = to_device_.find(chunk.transfer);
  if (found == to_device_.end())
    return Status::Invalid("a chunk of the unknown transfer {}", chunk.transfer);
  const std::shared_ptr<Transfer> transfer = found->second;
  if (!transfer->clear_to_send && !transfer->early)
    return Status::Invalid("a chunk of transfer {} before its clear to send", chunk.transfer);
  if (chunk.offset > transfer->bytes || chunk.bytes > transfer->bytes - chunk.offset ||
      chunk.bytes > transfer->bytes - transfer->received)
    return Status::Invalid(
        "a chunk of bytes {} + {} of transfer {} with {} bytes ({} bytes received before)",
        chunk.offset, chunk.bytes, chunk.transfer, transfer->bytes, transfer->received);
  transfer->received += chunk.bytes;
  // Chunks of a failed transfer are dropped.
  if (transfer->state->failed || faults_.lost() != CUDA_SUCCESS) {
    channel_.ReleaseSlot(chunk.slot);
    ForgetIfReceived(*transfer);
    return Status::Ok();
  }
  if (!transfer->clear_to_send) {
    transfer->kept.push_back({chunk.offset, {bytes, bytes + chunk.bytes}});
    channel_.ReleaseSlot(chunk.slot);
    return Status::Ok();
  }
  Stream& stream = *transfer->stream;
  const CUresult result = staged_.ToDevice(
      transfer->box, {chunk.transfer, chunk.offset, chunk.bytes, TraceKind::kToDevice}, bytes,
      stream, GiveSlotBack{chunk.slot});
  if (result != CUDA_SUCCESS) {
    channel_.ReleaseSlot(chunk.slot);
    Fail(*transfer, result);
    if (!transfer->open_ended) queues_.Release(*stream.queue);
    return Status::Ok();
  }
  transfer->submitted += chunk.bytes;
  ForgetIfReceived(*transfer);
  if (transfer->submitted == transfer->bytes && !transfer->open_ended)
    queues_.Release(*stream.queue);
  return Status::Ok();
}

bool Transfers::SubmitKept(Transfer& transfer) {
  for (const auto& [offset, bytes] : std::exchange(transfer.kept, {})) {
    const auto count = static_cast<std::uint32_t>(bytes.size());
    const CUresult result =
        staged_.FromMemory(transfer.box, {transfer.state->id, offset, count, TraceKind::kToDevice},
                           bytes.data(), *transfer.stream);
    if (result != CUDA_SUCCESS) {
      Fail(transfer, result);
      return false;
    }
    const std::uint64_t rows =
        IsRun(transfer.box) ? 1 : transfer.box.extent.rows * transfer.box.extent.planes;
    pending_.Add(transfer.stream, rows + count / kInlineBytesPerUnit);
    transfer.submitted += count;
  }
  return true;
}

void Transfers::ForgetIfReceived(const Transfer& transfer) {
  if (transfer.received == transfer.bytes && !transfer.open_ended)
    to_device_.erase(transfer.state->id);
}

SubmitResult Transfers::BeginFromDevice(const std::shared_ptr<Transfer>& transfer) {
  while (transfer->submitted < transfer->bytes) {
    const std::optional<std::uint32_t> slot = slot_queue_.AcquireSlot(channel_);
    if (!slot) {
      slot_queue_.Add(transfer);
      return SubmitResult::kHeld;
    }
    if (!SubmitFromDevice(*transfer, *slot)) break;
  }
  return transfer->open_ended ? SubmitResult::kHeld : SubmitResult::kSubmitted;
}

void Transfers::UseFreeSlots() {
  slot_queue_.GoOn(channel_, [this](const std::shared_ptr<Transfer>& transfer, std::uint32_t slot) {
    receiving_thread.AssertHeld();
    if (SubmitFromDevice(*transfer, slot) && transfer->submitted < transfer->bytes) return true;
    if (!transfer->open_ended) queues_.Release(*transfer->stream->queue);
    return false;
  });
}

bool Transfers::SubmitFromDevice(Transfer& transfer, std::uint32_t slot) {
  Stream& stream = *transfer.stream;
  const std::uint32_t bytes = channel_.ChunkBytes(transfer.submitted, transfer.bytes);
  const CUresult result = staged_.FromDevice(
      transfer.box, {transfer.state->id, transfer.submitted, bytes, TraceKind::kFromDevice},
      channel_.OutgoingSlot(slot), stream,
      SendChunk{transfer.state, transfer.submitted, bytes, slot});
  if (result != CUDA_SUCCESS) {
    channel_.ReturnSlot(slot);
    Fail(transfer, result);
    return false;
  }
  // Completions up to here follow this chunk.
  stream.chunk_behind = stream.submitted;
  transfer.submitted += bytes;
  return true;
}

void Transfers::Forget() { slot_queue_.Forget(); }

void Transfers::Fail(Transfer& transfer, CUresult result) {
  transfer.result = result;
  // The outcome of a file's copy has its result.
  if (transfer.open_ended)
    faults_.Check(result);
  else
    faults_.Posted(transfer.origin, result);
  transfer.state->Fail(channel_, result);
  if (transfer.early && !transfer.clear_to_send) {
    transfer.clear_to_send = true;
    early_bytes_ -= transfer.bytes;
    ForgetIfReceived(transfer);
  } else if (!transfer.clear_to_send) {
    to_device_.erase(transfer.state->id);
  }
}

}  // namespace cuspan::proxy
