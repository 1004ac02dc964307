// Contexts: which one a thread has, and the primary ones of devices.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// A context's handle is its address. CUDA_ERROR_INVALID_CONTEXT for what is none.
Error FindContext(const Session& session, CUcontext handle, Context** context);
// The same, null being the current one.
Error FindContextOrCurrent(Session& session, CUcontext handle, Context** context);
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

// A context of the device beside its primary one, with memory, modules, streams and events of its
// own. `flags` as in CUctx_flags. The calling thread has it as its current one then.
Error CreateContext(Session& session, int device, unsigned flags, CUcontext* context);
// Ends it, whoever uses it; it stays in the stacks of other threads. CUDA_ERROR_INVALID_CONTEXT for
// primary ones.
Error DestroyContext(Session& session, CUcontext handle);

// Another user of the current context, and one user less, with the last of whom a created one is
// destroyed. Those of primary ones are counted by RetainPrimary alone (measured natively, driver
// 580). CUDA_ERROR_INVALID_CONTEXT for one that is not current.
Error AttachContext(Session& session, CUcontext* context);
Error DetachContext(Session& session, CUcontext handle);

unsigned FlagsOf(const Context& context);
Error SetFlags(Context& context, unsigned flags);

}  // namespace cuspan
