// Objects of the program kept by graphs. When the last reference is gone, the object's function is
// called, on a thread holding no lock.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"

namespace cuspan {

// `count`: number of references; `flags`: the driver's.
Error CreateUserObject(CUuserObject* handle, void* object, CUhostFn destroy, unsigned count,
                       unsigned flags);
Error RetainUserObject(CUuserObject handle, unsigned count);
Error ReleaseUserObject(CUuserObject handle, unsigned count);
Error RetainInGraph(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags);
Error ReleaseFromGraph(CUgraph graph, CUuserObject handle, unsigned count);

}  // namespace cuspan
