// The functions of the process's CUDA driver that collectives need. The process has loaded it, from
// wherever it is, by the name libcuda.so.1.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include "common/status.h"

namespace cuspan::softnccl {

// Those that a proxy uses itself, and no other: the software GPU has only these.
struct Cuda {
  decltype(&cuCtxGetCurrent) context_get;
  decltype(&cuCtxSetCurrent) context_set;
  decltype(&cuMemHostRegister) host_register;
  decltype(&cuMemHostUnregister) host_unregister;
  decltype(&cuMemHostGetDevicePointer) host_address;
  decltype(&cuMemcpyDtoHAsync) copy_from_device;
  decltype(&cuMemcpyHtoDAsync) copy_to_device;
  decltype(&cuStreamBatchMemOp) memory_operations;

  // kUnavailable when there is no driver, or one that lacks a function.
  static Result<Cuda> Load();
};

// Makes a context current to the calling thread as long as it lives.
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
