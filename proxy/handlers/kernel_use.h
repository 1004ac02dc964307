// What ops that run a kernel have in common.
#pragma once

#include "proxy/objects/kernel_call.h"
#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// kInvalid when there is no such kernel, or the arguments are not as many bytes as it takes.
inline Result<std::shared_ptr<Kernel>> FindKernel(DeviceSession& session, std::uint64_t handle,
                                                  Bytes arguments) {
  Result<std::shared_ptr<Kernel>> kernel = session.objects().kernels.Get(handle);
  if (kernel.ok() && arguments.size() != (*kernel)->argument_bytes)
    return Status::Invalid("a launch with {} bytes of arguments of a kernel that takes {}",
                           arguments.size(), (*kernel)->argument_bytes);
  return kernel;
}

}  // namespace cuspan::proxy
