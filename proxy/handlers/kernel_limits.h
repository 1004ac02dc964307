// What limits kernels, where runs share a GPU in pairs: found out by their PTX.
#pragma once

#include <memory>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// The kernel has been launched again, for so long (ns). Once it has taken long enough in all for
// that to matter, the worker finds out what limits it.
void AskWhatLimits(DeviceSession& session, const std::shared_ptr<Kernel>& kernel,
                   double nanoseconds);

}  // namespace cuspan::proxy
