// Memory on which synchronous operations are always complete when they return
// (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS). On other memory some are only in their stream by then.
#pragma once

#include <initializer_list>

#include "interpose/calls/ways_in.h"

namespace cuspan {

// Of the allocation that holds `memory`. Where it becomes so, what was done before is complete,
// too. CUDA_ERROR_INVALID_VALUE for what is no memory of CUDA's.
Error SetSynchronous(Session& session, const void* memory, bool synchronous);
bool IsSynchronous(Session& session, const void* memory);
// The allocation that starts there is freed.
void ForgetSynchronous(Session& session, const void* memory);

// Behind a synchronous operation on these places.
Error WaitIfSynchronous(Session& session, const StreamTarget& target,
                        std::initializer_list<const void*> places);

}  // namespace cuspan
