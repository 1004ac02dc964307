// Copies to a device whose bytes are sent with their op: see kMaxEarlyBytes.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "interpose/client/connection/outgoing_transfers.h"

namespace cuspan {

// Posts `op`, a copy of the bytes at `source`, by post(op) → CUresult, and sends the bytes. Nothing
// happens, and there is no result, if it cannot be an early copy now. `later`: see
// OutgoingTransfers::SendEarly. Threads: any.
template <typename Op, typename Post>
std::optional<CUresult> SendEarly(OutgoingTransfers& outgoing, Op& op, const std::byte* source,
                                  std::uint64_t bytes, const HostRows& rows, bool later,
                                  Post&& post) {
  const std::optional<std::uint64_t> transfer =
      outgoing.BeginEarly(SpanOf(rows, source, 0, bytes), bytes);
  if (!transfer) return std::nullopt;
  op.transfer = *transfer;
  op.early = true;
  const CUresult result = post(op);
  if (result == CUDA_SUCCESS) return outgoing.SendEarly(*transfer, source, bytes, rows, later);
  outgoing.ForgetEarly(*transfer);
  return result;
}

}  // namespace cuspan
