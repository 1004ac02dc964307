// Contexts: current contexts of threads, and primary contexts of devices.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// A context's handle is its address. CUDA_ERROR_INVALID_CONTEXT for other handles.
Error FindContext(const Session& session, CUcontext handle, Context** context);
// Same, null meaning the current context.
Error FindContextOrCurrent(Session& session, CUcontext handle, Context** context);
inline CUcontext HandleOf(const Context* context) {
  return reinterpret_cast<CUcontext>(const_cast<Context*>(context));
}

// Begins a generation of the device's primary context if it has none.
Error RetainPrimary(Session& session, int device, CUcontext* context);
// Releases the primary context once. The last release ends its generation, unless the runtime used
// it. CUDA_ERROR_INVALID_CONTEXT if it is not retained.
Error ReleasePrimary(Session& session, int device);
// Ends its generation, even if it is in use.
Error ResetPrimary(Session& session, int device);

// Creates a context of the device beside its primary one, with its own memory, modules, streams and
// events. It becomes the calling thread's current context. `flags` as in CUctx_flags.
Error CreateContext(Session& session, int device, unsigned flags, CUcontext* context);
// Destroys it, even if it is in use. It stays in the stacks of other threads.
// CUDA_ERROR_INVALID_CONTEXT for primary contexts.
Error DestroyContext(Session& session, CUcontext handle);

// Adds or removes a user of the current context. Removing the last user destroys a created context.
// Users of primary ones are counted by RetainPrimary alone (measured natively, driver 580).
// CUDA_ERROR_INVALID_CONTEXT if the context is not current.
Error AttachContext(Session& session, CUcontext* context);
Error DetachContext(Session& session, CUcontext handle);

unsigned FlagsOf(Session& session, const Context& context);
Error SetFlags(Session& session, Context& context, unsigned flags);

}  // namespace cuspan
