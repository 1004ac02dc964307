// Limiting resources of kernels, found by analysing their PTX; for runs sharing a GPU in pairs.
#pragma once

#include <memory>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// Counts a launch of the kernel with a run time in ns. If the total is large enough to matter, the
// worker finds the limiting resource.
void AskWhatLimits(DeviceSession& session, const std::shared_ptr<Kernel>& kernel,
                   double nanoseconds);

}  // namespace cuspan::proxy
