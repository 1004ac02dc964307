// Batches of stream memory operations, as the driver takes them.
#pragma once

#include <cuda.h>

#include <vector>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

using MemoryOperations = std::vector<CUstreamBatchMemOpParams>;

// kInvalid for what is no batch: none or too many, or of a kind that there is not.
Result<MemoryOperations> ReadOperations(const std::vector<MemoryOperation>& operations);

// Whether the client may touch all that they read and write.
bool MayTouch(const DeviceSession& session, const MemoryOperations& operations);

}  // namespace cuspan::proxy
