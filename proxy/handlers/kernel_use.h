// Common part of ops running a kernel.
#pragma once

#include "proxy/objects/kernel_call.h"
#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// kInvalid if the kernel does not exist, or the size of the arguments is wrong.
inline Result<std::shared_ptr<Kernel>> FindKernel(DeviceSession& session, std::uint64_t handle,
                                                  Bytes arguments) {
  Result<std::shared_ptr<Kernel>> kernel = session.objects().kernels.Get(handle);
  if (kernel.ok() && arguments.size() != (*kernel)->argument_bytes)
    return Status::Invalid("a launch with {} bytes of arguments; the kernel takes {}",
                           arguments.size(), (*kernel)->argument_bytes);
  return kernel;
}

}  // namespace cuspan::proxy
