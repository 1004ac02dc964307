#include "proxy/bulk/transfers.h"

#include <algorithm>

namespace cuspan::proxy {

Status Transfers::Announce(const std::shared_ptr<Transfer>& transfer) {
  if (!to_device_.emplace(transfer->state->id, transfer).second)
    return Status::Invalid("transfer {} is already under way", transfer->state->id);
  return Status::Ok();
}

Turn Transfers::BeginToDevice(Transfer& transfer) {
  if (transfer.bytes == 0) {
    to_device_.erase(transfer.state->id);
    return Turn::kSubmitted;
  }
  // What is on its way to the client may be what this copy is to read there: then the client
  // must have it first.
  PooledEvent event;
  if (completer_.chunks_pending()) {
    if (const CUresult result = faults_.Check(events_.Record(transfer.stream->driver, event));
        result != CUDA_SUCCESS) {
      Fail(transfer, result);
      return Turn::kSubmitted;
    }
  }
  transfer.wanted = true;
  const Answer ask = [this, id = transfer.state->id](CUresult result, std::uint64_t chunks) {
    // A lost device is told by itself.
    if (result == CUDA_SUCCESS) channel_.Post(TransferWanted{id, chunks});
  };
  if (event.get() == nullptr)
    ask(CUDA_SUCCESS, completer_.pushed());
  else
    completer_.Add(transfer.stream->lane, std::move(event), transfer.stream->submitted, ask);
  return Turn::kHeld;
}

Status Transfers::TakeChunk(const Chunk& chunk) {
  const std::byte* bytes = channel_.IncomingSlot(chunk.slot);
  if (bytes == nullptr)
    return Status::Invalid("a chunk names staging slot {}, which is none", chunk.slot);
  if (chunk.bytes == 0 || chunk.bytes > channel_.layout().staging_bytes)
    return Status::Invalid("a chunk of {} bytes in a staging slot of {}", chunk.bytes,
                           channel_.layout().staging_bytes);
  const auto found = to_device_.find(chunk.transfer);
  if (found == to_device_.end())
    return Status::Invalid("a chunk of transfer {}, which is none", chunk.transfer);
  const std::shared_ptr<Transfer> transfer = found->second;
  if (!transfer->wanted)
    return Status::Invalid("a chunk of transfer {} before it was wanted", chunk.transfer);
  if (chunk.offset > transfer->bytes || chunk.bytes > transfer->bytes - chunk.offset ||
      chunk.bytes > transfer->bytes - transfer->submitted)
    return Status::Invalid("a chunk of bytes {} + {} of transfer {}, which has {} ({} came before)",
                           chunk.offset, chunk.bytes, chunk.transfer, transfer->bytes,
                           transfer->submitted);
  if (transfer->state->failed || faults_.lost() != CUDA_SUCCESS) {
    channel_.ReleaseSlot(chunk.slot);
    return Status::Ok();
  }
  Stream& stream = *transfer->stream;
  PooledEvent event;
  CUresult result = events_.Take(event);
  Timeline::Start start = timeline_.Begin(stream.driver);
  if (result == CUDA_SUCCESS)
    result = transfer->box ? CopyToBox(driver_, *transfer->box, chunk.offset, bytes, chunk.bytes,
                                       stream.driver)
                           : driver_.cuMemcpyHtoDAsync(transfer->address + chunk.offset, bytes,
                                                       chunk.bytes, stream.driver);
  if (result == CUDA_SUCCESS) {
    ++stream.submitted;
    result = driver_.cuEventRecord(event.get(), stream.driver);
  }
  if (result != CUDA_SUCCESS) {
    channel_.ReleaseSlot(chunk.slot);
    Fail(*transfer, result);
    queues_.Release(*stream.queue);
    return Status::Ok();
  }
  timeline_.End(std::move(start), stream, TraceKind::kToDevice, chunk.transfer, chunk.offset,
                chunk.bytes);
  completer_.Add(stream.lane, std::move(event), stream.submitted, GiveSlotBack{chunk.slot});
  transfer->submitted += chunk.bytes;
  if (transfer->submitted == transfer->bytes) {
    to_device_.erase(found);
    queues_.Release(*stream.queue);
  }
  return Status::Ok();
}

Turn Transfers::BeginFromDevice(const std::shared_ptr<Transfer>& transfer) {
  while (transfer->submitted < transfer->bytes) {
    // Those that waited before come first.
    const std::optional<std::uint32_t> slot = slotless_.empty() ? TakeSlot() : std::nullopt;
    if (!slot) {
      slotless_.push_back(transfer);
      return Turn::kHeld;
    }
    if (!SubmitFromDevice(*transfer, *slot)) break;
  }
  return Turn::kSubmitted;
}

bool Transfers::SlotCameFree() {
  if (slotless_.empty()) return false;
  if (!spare_slot_) spare_slot_ = channel_.TryTakeSlot();
  return spare_slot_.has_value();
}

void Transfers::UseFreeSlots() {
  while (!slotless_.empty()) {
    const std::optional<std::uint32_t> slot = TakeSlot();
    if (!slot) return;
    // One piece each in turn, so that a long copy does not keep short ones waiting.
    const std::shared_ptr<Transfer> transfer = std::move(slotless_.front());
    slotless_.pop_front();
    if (SubmitFromDevice(*transfer, *slot) && transfer->submitted < transfer->bytes)
      slotless_.push_back(transfer);
    else
      queues_.Release(*transfer->stream->queue);
  }
}

std::optional<std::uint32_t> Transfers::TakeSlot() {
  if (spare_slot_) return std::exchange(spare_slot_, std::nullopt);
  return channel_.TryTakeSlot();
}

bool Transfers::SubmitFromDevice(Transfer& transfer, std::uint32_t slot) {
  Stream& stream = *transfer.stream;
  const std::uint32_t bytes = channel_.ChunkBytes(transfer.submitted, transfer.bytes);
  PooledEvent event;
  CUresult result = events_.Take(event);
  Timeline::Start start = timeline_.Begin(stream.driver);
  if (result == CUDA_SUCCESS)
    result = transfer.box ? CopyFromBox(driver_, *transfer.box, transfer.submitted,
                                        channel_.OutgoingSlot(slot), bytes, stream.driver)
                          : driver_.cuMemcpyDtoHAsync(channel_.OutgoingSlot(slot),
                                                      transfer.address + transfer.submitted, bytes,
                                                      stream.driver);
  if (result == CUDA_SUCCESS) {
    ++stream.submitted;
    result = driver_.cuEventRecord(event.get(), stream.driver);
  }
  if (result != CUDA_SUCCESS) {
    channel_.ReturnSlot(slot);
    Fail(transfer, result);
    return false;
  }
  timeline_.End(std::move(start), stream, TraceKind::kFromDevice, transfer.state->id,
                transfer.submitted, bytes);
  completer_.Add(stream.lane, std::move(event), stream.submitted,
                 SendChunk{transfer.state, transfer.submitted, bytes, slot});
  stream.chunk_behind = stream.submitted;
  transfer.submitted += bytes;
  return true;
}

void Transfers::Forget() { slotless_.clear(); }

void Transfers::Fail(Transfer& transfer, CUresult result) {
  faults_.Posted(transfer.origin, result);
  transfer.state->Fail(channel_, result);
  if (!transfer.wanted) to_device_.erase(transfer.state->id);
}

}  // namespace cuspan::proxy
