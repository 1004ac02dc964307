// Roles of the proxy's threads.
#pragma once

#include "common/thread_role.h"

namespace cuspan::proxy {

// Receives the client's frames, and submits work to the driver in stream order. Never blocks. Runs
// Serve (server.h).
using ReceivingThread = ThreadRole<struct ReceivingThreadTag>;
inline ReceivingThread receiving_thread;

// Makes the blocking driver calls. It runs the tasks of a Worker.
using WorkerThread = ThreadRole<struct WorkerThreadTag>;
inline WorkerThread worker_thread;

}  // namespace cuspan::proxy
