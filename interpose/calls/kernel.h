// A kernel on one device: finding it there, its attributes and its parameters.
#pragma once

#include "interpose/calls/ways_in.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/modules.h"

namespace cuspan {

// CUDA_ERROR_NOT_SUPPORTED when something in the image needs what we can not do.
Error CheckSupported(const FatbinRecord& fatbin);

// `function` is a host stub, or a kernel's handle: a cudaKernel_t, CUkernel or CUfunction.
// CUDA_ERROR_INVALID_HANDLE when the program has no such kernel (runtimes since 12.8; before,
// cudaErrorInvalidDeviceFunction), CUDA_ERROR_NOT_SUPPORTED when its image needs what we can not
// do.
Error FindFunction(const void* function, const FunctionRecord** record);

// The kernel, loaded on the device of `connection` if it was not. cudaErrorInvalidDeviceFunction
// when the image that should hold it does not, or is unloaded.
Error FindKernel(ContextConnection& connection, const FunctionRecord& function,
                 LoadedKernel** kernel);

// What FindFunction and FindKernel have told the calling thread lately of a kernel on the device of
// `connection`, from tables alone; null if it must be found.
const LoadedKernel* KnownKernel(const ContextConnection& connection, const void* function);

// Whether a program may give the attribute this value.
Error CheckAttribute(const DeviceDescription& device, const LoadedKernel& kernel,
                     CUfunction_attribute attribute, int value);
// The same, and does so.
Error SetAttribute(const DeviceDescription& device, ContextConnection& connection,
                   LoadedKernel& kernel, CUfunction_attribute attribute, int value);

// A preference between cache and shared memory.
Error SetCacheConfig(ContextConnection& connection, const LoadedKernel& kernel,
                     CUfunc_cache config);

// Where a parameter lies among the kernel's, and its size, which may be null.
Error PlaceOfParameter(const LoadedKernel& kernel, std::size_t index, std::size_t* offset,
                       std::size_t* bytes);

}  // namespace cuspan
