// Functions of the CUDA driver needed by collectives. The process has already loaded the driver,
// from any path, as libcuda.so.1.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include "common/status.h"

namespace cuspan::softnccl {

// Only functions also used by a proxy: the software GPU has no others.
struct Cuda {
  decltype(&cuCtxGetCurrent) context_get;
  decltype(&cuCtxSetCurrent) context_set;
  decltype(&cuMemHostRegister) host_register;
  decltype(&cuMemHostUnregister) host_unregister;
  decltype(&cuMemHostGetDevicePointer) host_address;
  decltype(&cuMemcpyDtoHAsync) copy_from_device;
  decltype(&cuMemcpyHtoDAsync) copy_to_device;
  decltype(&cuStreamBatchMemOp) memory_operations;

  // kUnavailable if there is no driver, or a function is missing.
  static Result<Cuda> Load();
};

// Makes a context current to the calling thread, until destroyed.
class WithContext {
 public:
  WithContext(const Cuda& cuda, CUcontext context) : cuda_(cuda) {
    cuda_.context_get(&before_);
    cuda_.context_set(context);
  }
  WithContext(const WithContext&) = delete;
  ~WithContext() { cuda_.context_set(before_); }

 private:
  const Cuda& cuda_;
  CUcontext before_ = nullptr;
};

}  // namespace cuspan::softnccl
