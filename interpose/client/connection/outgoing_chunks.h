// Fills staging slots with the bytes of a copy to a device, with several
// threads where the machine has cores for them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/client/connection/copy_threads.h"
#include "interpose/client/connection/host_rows.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// The bytes of one transfer, as they lie in the program's memory.
struct OutgoingBytes {
  std::uint64_t transfer = 0;
  const std::byte* source = nullptr;
  std::uint64_t bytes = 0;
  HostRows rows;
  std::uint32_t device = 0;  // As the program counts, for a trace.
};

// Sends [begin, end) of them as chunks and waits until all were posted. The proxy must want
// them. CUDA_ERROR_DEVICE_UNAVAILABLE when the channel is closed. Any thread.
CUresult SendChunks(Channel& channel, CopyThreads& threads, const OutgoingBytes& bytes,
                    std::uint64_t begin, std::uint64_t end);

}  // namespace cuspan
