// Tensor maps: descriptions of tensors by which kernels copy parts of them. What CUDA documents of
// their arguments is checked here; the driver of the device encodes them, each once.
#pragma once

#include <cuda.h>

#include "interpose/calls/error.h"
#include "interpose/client/session.h"
#include "ops.gen.h"

namespace cuspan {

// `op` without the address as the device sees it, which is put in here. `map` may be any pointer.
// CUDA_ERROR_INVALID_VALUE for what cuda.h rules out; otherwise what the driver says.
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapTiled op,
                      CUtensorMap* map);
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2col op,
                      CUtensorMap* map);
Error EncodeTensorMap(Session& session, ContextConnection& connection, TensorMapIm2colWide op,
                      CUtensorMap* map);
Error ReplaceTensorAddress(Session& session, ContextConnection& connection, const void* address,
                           CUtensorMap* map);

}  // namespace cuspan
