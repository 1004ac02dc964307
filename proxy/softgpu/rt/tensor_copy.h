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
  const char* what = nullptr;  // Reason of the failure, a constant text.
  std::uint32_t bytes = 0;     // Size of the box, parts outside the tensor included.
};

// `map`: 128 bytes of a tensor map, checked here. `shared`: start of the box, followed by `room`
// bytes of the block's shared memory. Parts outside the tensor are filled by loads, and skipped by
// writes to the tensor. Unmapped global memory faults. `checked`: the thread, if its accesses must
// be checked first (checking mode); otherwise null.
TensorCopied CopyTensor(const TensorOperation& operation, const void* map,
                        const std::int32_t* words, std::uint8_t* shared, std::uint64_t room,
                        ThreadContext* checked);

}  // namespace cuspan::softgpu
