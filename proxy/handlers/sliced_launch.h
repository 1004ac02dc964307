// Launches that are handed over in slices, while runs that are more important share the GPU.
#pragma once

#include <memory>
#include <optional>

#include "proxy/handlers/kernel_use.h"
#include "proxy/sharing/share_gate.h"

namespace cuspan::proxy {

// Hands over the first slice of a launch whose turn has come, and gives the gate the rest, for
// which the stream is held then. Nothing, and nothing is done, when the launch is to be handed over
// whole: it is short, or nobody is more important, or its kernel can not be sliced, or not yet.
std::optional<SubmitResult> LaunchInSlices(DeviceSession& session, const Origin& origin,
                                           const std::shared_ptr<Stream>& stream,
                                           const KernelCall& call)
    CUSPAN_REQUIRES(receiving_thread);

}  // namespace cuspan::proxy
