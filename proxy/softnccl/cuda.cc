#include "proxy/softnccl/cuda.h"

#include <dlfcn.h>

// cuda.h defines some names as macros for versioned functions.
#define CUSPAN_NAME_OF(function) CUSPAN_TEXT(function)
#define CUSPAN_TEXT(function) #function

namespace cuspan::softnccl {

Result<Cuda> Cuda::Load() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr)
    return Status::Unavailable("there is no CUDA driver in this process: {}", ::dlerror());
  Cuda cuda;
  Status status;
  const auto find = [&]<typename Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) status = Status::Unavailable("this CUDA driver has no {}", name);
  };
  find(CUSPAN_NAME_OF(cuCtxGetCurrent), cuda.context_get);
  find(CUSPAN_NAME_OF(cuCtxSetCurrent), cuda.context_set);
  find(CUSPAN_NAME_OF(cuMemHostRegister), cuda.host_register);
  find(CUSPAN_NAME_OF(cuMemHostUnregister), cuda.host_unregister);
  find(CUSPAN_NAME_OF(cuMemHostGetDevicePointer), cuda.host_address);
  find(CUSPAN_NAME_OF(cuMemcpyDtoHAsync), cuda.copy_from_device);
  find(CUSPAN_NAME_OF(cuMemcpyHtoDAsync), cuda.copy_to_device);
  find(CUSPAN_NAME_OF(cuStreamBatchMemOp), cuda.memory_operations);
  CUSPAN_RETURN_IF_ERROR(status);
  return cuda;
}

}  // namespace cuspan::softnccl
