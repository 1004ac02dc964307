// Copies of rows and planes, as described by the runtime's parameters.
#pragma once

#include "interpose/calls/copy_box.h"
#include "interpose/runtime/copy_kind.h"

namespace cuspan {

// Finds the location of a variable's part on the current device (copy_symbol.cc).
// cudaErrorInvalidSymbol if the variable is unknown; cudaErrorInvalidValue if [offset, offset +
// bytes) is not inside.
Error LocateInVariable(Session& session, const void* symbol, std::size_t offset, std::size_t bytes,
                       std::byte** place);

// Conversion of valid parameters to a box copy, and back (copy_box.cc).
Error BoxOf(Session& session, const cudaMemcpy3DParms& parameters, BoxRequest* box);
cudaMemcpy3DParms ParametersOf(Session& session, const BoxRequest& box);

}  // namespace cuspan
