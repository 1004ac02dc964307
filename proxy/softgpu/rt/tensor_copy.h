// Copies between a tensor in global memory and a box of it in shared memory.
// (PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
#pragma once

#include <cuda.h>

#include <cstdint>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/tensor_operation.h"

namespace cuspan::softgpu {

struct TensorCopied {
  CUresult error = CUDA_SUCCESS;
  const char* what = nullptr;  // A constant text that says why it failed.
  std::uint32_t bytes = 0;     // Of the box, what lies outside the tensor included.
};

// `map` is a tensor map's 128 bytes, which are checked; `shared` is where the box lies, with `room`
// bytes of the block's shared memory from there on. What lies outside the tensor is filled, or left
// out where the tensor is written. Global memory that is not there faults; in checking mode
// `checked` is the thread whose accesses are looked at before, otherwise null.
TensorCopied CopyTensor(const TensorOperation& operation, const void* map,
                        const std::int32_t* words, std::uint8_t* shared, std::uint64_t room,
                        ThreadContext* checked);

}  // namespace cuspan::softgpu
