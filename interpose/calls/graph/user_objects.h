// Objects of the program that graphs keep: each has a function that is called when nobody has a
// reference to it any more, on a thread that holds no lock.
#pragma once

#include <cuda.h>

#include "interpose/calls/error.h"

namespace cuspan {

// Counts are of references; `flags` are the driver's.
Error CreateUserObject(CUuserObject* handle, void* object, CUhostFn destroy, unsigned count,
                       unsigned flags);
Error RetainUserObject(CUuserObject handle, unsigned count);
Error ReleaseUserObject(CUuserObject handle, unsigned count);
Error RetainInGraph(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags);
Error ReleaseFromGraph(CUgraph graph, CUuserObject handle, unsigned count);

}  // namespace cuspan
