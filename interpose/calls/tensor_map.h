// Tensor maps: descriptions of tensors, used by kernels to copy parts of them. Arguments are
// checked here as documented by CUDA. The device's driver encodes each map once.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"
#include "interpose/client/session.h"
#include "ops.gen.h"

namespace cuspan {

// The address in `op` is the program's; it is replaced by the device's. `map` may be any pointer.
// CUDA_ERROR_INVALID_VALUE if cuda.h excludes the arguments; otherwise the driver's result.
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapTiled op,
                      CUtensorMap* map);
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2col op,
                      CUtensorMap* map);
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2colWide op,
                      CUtensorMap* map);
Error ReplaceTensorAddress(Session& session, ContextConnection& connection, const void* address,
                           CUtensorMap* map);

}  // namespace cuspan
