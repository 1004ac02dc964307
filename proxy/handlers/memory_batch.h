// Batches of stream memory operations, in the driver's format.
#pragma once

#include <cuda.h>

#include <vector>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

using MemoryOperations = std::vector<CUstreamBatchMemOpParams>;

// kInvalid for no or too many operations, or an unknown kind.
Result<MemoryOperations> ReadOperations(const std::vector<MemoryOperation>& operations);

// True if the client may access all their memory.
bool MayTouch(const DeviceSession& session, const MemoryOperations& operations);

}  // namespace cuspan::proxy
