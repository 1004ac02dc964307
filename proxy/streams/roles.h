// The roles of a proxy's threads.
#pragma once

#include "common/thread_role.h"

namespace cuspan::proxy {

// Takes the client's frames, hands work to the driver in the order of the streams, and waits for
// nothing. It runs Serve (server.h).
using ReceivingThread = ThreadRole<struct ReceivingThreadTag>;
inline ReceivingThread receiving_thread;

// Makes the blocking driver calls. It runs the tasks of a Worker.
using WorkerThread = ThreadRole<struct WorkerThreadTag>;
inline WorkerThread worker_thread;

}  // namespace cuspan::proxy
