// Events, also in streams that are being captured.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// `flags` as in CUevent_flags.
Error CreateEvent(unsigned flags, CUevent* event);
Error DestroyEvent(CUevent event);
// `flags`: CU_EVENT_RECORD_EXTERNAL makes it a node that records at each launch; and
// CU_EVENT_WAIT_EXTERNAL one that waits.
Error RecordEvent(CUevent event, CUstream stream, unsigned flags, DefaultStream meaning);
Error WaitEvent(CUstream stream, CUevent event, unsigned flags, DefaultStream meaning);
Error QueryEvent(CUevent event);
Error SynchronizeEvent(CUevent event);
Error ElapsedTime(CUevent start, CUevent end, float* milliseconds);

}  // namespace cuspan
