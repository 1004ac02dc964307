// Kernels on a device: lookup, attributes and parameters.
#pragma once

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/modules.h"

namespace cuspan {

// CUDA_ERROR_NOT_SUPPORTED if the image needs features not supported here.
Error CheckSupported(const FatbinRecord& fatbin);

// `function` is a host stub, or a kernel's handle: a cudaKernel_t, CUkernel or CUfunction.
// CUDA_ERROR_INVALID_HANDLE if the program has no such kernel (runtimes since 12.8; before,
// cudaErrorInvalidDeviceFunction). CUDA_ERROR_NOT_SUPPORTED as for CheckSupported.
Error FindFunction(const void* function, const FunctionRecord** record);

// *owner: the context of the kernel's module; unchanged for a kernel without an own context.
// CUDA_ERROR_INVALID_HANDLE if the context has ended; its device may be lost.
Error FindOwner(Session& session, const FunctionRecord& function,
                std::shared_ptr<ContextConnection>* owner);

// Finds the kernel, and loads it on the device of `connection` if necessary. A module's kernel is
// found in its own context.
// cudaErrorInvalidDeviceFunction if its image does not contain it, or is unloaded.
Error FindKernel(ContextConnection& connection, const FunctionRecord& function,
                 LoadedKernel** kernel);

// Returns recent results of FindFunction and FindKernel for the device of `connection`, from the
// calling thread's cache only; null if not cached.
const LoadedKernel* KnownKernel(const ContextConnection& connection, const void* function);

// Checks if the attribute may have this value.
Error CheckAttribute(const DeviceDescription& device, const LoadedKernel& kernel,
                     CUfunction_attribute attribute, int value);
// Same, and sets it.
Error SetAttribute(const DeviceDescription& device, ContextConnection& connection,
                   LoadedKernel& kernel, CUfunction_attribute attribute, int value);

// Sets the preference between cache and shared memory.
Error SetCacheConfig(ContextConnection& connection, const LoadedKernel& kernel,
                     CUfunc_cache config);

// Offset of a parameter in the argument buffer, and its size. `bytes` may be null.
Error LocateParameter(const LoadedKernel& kernel, std::size_t index, std::size_t* offset,
                      std::size_t* bytes);

}  // namespace cuspan
