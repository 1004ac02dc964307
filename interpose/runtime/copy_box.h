// Copies of rows and planes as the runtime describes them.
#pragma once

#include "interpose/calls/copy_box.h"
#include "interpose/runtime/copy_kind.h"

namespace cuspan {

// The place in a variable on the current device, when [offset, offset + bytes) lies inside
// (copy_symbol.cc); cudaErrorInvalidSymbol or cudaErrorInvalidValue when not.
Error PlaceInVariable(Session& session, const void* symbol, std::size_t offset, std::size_t bytes,
                      std::byte** place);

// The copy that the parameters describe, when they make sense (copy_box.cc); and back.
Error BoxOf(Session& session, const cudaMemcpy3DParms& parameters, BoxRequest* box);
cudaMemcpy3DParms ParametersOf(Session& session, const BoxRequest& box);

}  // namespace cuspan
