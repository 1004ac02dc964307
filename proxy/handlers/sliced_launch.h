// Launches submitted in slices while runs of higher priority share the GPU.
#pragma once

#include <memory>
#include <optional>

#include "proxy/handlers/kernel_use.h"
#include "proxy/sharing/share_gate.h"

namespace cuspan::proxy {

// Submits the first slice of a launch and gives the rest to the ShareGate. The stream is held until
// its end. Returns nullopt, without any effect, if the launch should be submitted whole. This is
// the case if it is short, if no other run has higher priority, or if the kernel's slices do not
// exist (yet).
std::optional<SubmitResult> LaunchInSlices(DeviceSession& session, const Origin& origin,
                                           const std::shared_ptr<Stream>& stream,
                                           const KernelCall& call)
    CUSPAN_REQUIRES(receiving_thread);

}  // namespace cuspan::proxy
