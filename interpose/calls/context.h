// Contexts: which one a thread has, and the primary ones of devices.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// A context's handle is its address. CUDA_ERROR_INVALID_CONTEXT for what is none.
Error FindContext(const Session& session, CUcontext handle, Context** context);
inline CUcontext HandleOf(const Context* context) {
  return reinterpret_cast<CUcontext>(const_cast<Context*>(context));
}

// Begins a life of the device's primary context if it has none.
Error RetainPrimary(Session& session, int device, CUcontext* context);
// Ends it when nobody has retained it any more and the runtime has not used it.
// CUDA_ERROR_INVALID_CONTEXT when nobody has.
Error ReleasePrimary(Session& session, int device);
// Ends it, whoever uses it.
Error ResetPrimary(Session& session, int device);

}  // namespace cuspan
