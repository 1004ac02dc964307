// Fills staging slots with the bytes of a copy to a device, using several threads if the machine
// has cores for them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "interpose/client/connection/copy_threads.h"
#include "interpose/client/connection/host_rows.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Bytes of one transfer in the program's memory.
struct OutgoingBytes {
  std::uint64_t transfer = 0;
  const std::byte* source = nullptr;  // Null: the contents do not matter.
  std::uint64_t bytes = 0;
  HostRows rows;
  std::uint32_t device = 0;  // Number in the program, for traces.
  // If set, it provides the bytes instead: fills the slot with those from `offset` on, and returns
  // their number. Fewer are sent than wanted, or none. Called by several threads.
  std::function<std::size_t(std::uint64_t offset, std::span<std::byte> slot)> fill;
};

// Sends [begin, end) of them as chunks and blocks until all are posted. The transfer must be clear
// to send. CUDA_ERROR_DEVICE_UNAVAILABLE if the channel is closed. Threads: any.
CUresult SendChunks(Channel& channel, CopyThreads& threads, const OutgoingBytes& bytes,
                    std::uint64_t begin, std::uint64_t end);

}  // namespace cuspan
