// Memory with synchronous operations always complete on return (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
// On other memory some are then only queued in their stream.
#pragma once

#include <initializer_list>

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Changes the allocation holding `memory`. Changing it to synchronous waits for earlier operations.
// CUDA_ERROR_INVALID_VALUE for memory not from CUDA.
Error SetSynchronous(Session& session, const void* memory, bool synchronous);
bool IsSynchronous(Session& session, const void* memory);
// To be called when the allocation starting there is freed.
void ForgetSynchronous(Session& session, const void* memory);

// To be called after synchronous operations at these addresses.
Error WaitIfSynchronous(Session& session, const StreamTarget& target,
                        std::initializer_list<const void*> places);

}  // namespace cuspan
