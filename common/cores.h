// Processor cores of this process.
#pragma once

namespace cuspan {

// Number of cores that this process may run on, by its CPU affinity; at least 1. Threads: any.
int AvailableCores();

}  // namespace cuspan
