// Events, also in capturing streams.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// `flags` as in CUevent_flags.
Error CreateEvent(unsigned flags, CUevent* event);
Error DestroyEvent(CUevent event);
// `flags`: in a capture, CU_EVENT_RECORD_EXTERNAL makes a node recording at each launch;
// CU_EVENT_WAIT_EXTERNAL one waiting at each launch.
Error RecordEvent(CUevent event, CUstream stream, unsigned flags, DefaultStream meaning);
Error WaitEvent(CUstream stream, CUevent event, unsigned flags, DefaultStream meaning);
Error QueryEvent(CUevent event);
Error SynchronizeEvent(CUevent event);
Error ElapsedTime(CUevent start, CUevent end, float* milliseconds);

}  // namespace cuspan
