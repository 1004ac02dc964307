// cuStreamBatchMemOp.
#include "proxy/softgpu/driver/memory_batch.h"

#include "proxy/softgpu/driver/errors.h"

namespace cuspan::softgpu {
namespace {

constexpr unsigned kOperationsLimit = 256;  // Exclusive.
constexpr unsigned kConditions = 3;         // Comparison bits of CUstreamWaitValue_flags.

// Reads the parameters of a wait or a write.
template <typename Params>
MemoryOperation Read(const Params& params) {
  const bool wide = params.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                    params.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  return {.width = wide ? 8U : 4U,
          .address = params.address,
          .value = wide ? params.value64 : params.value};
}

CUresult Prepare(const Driver& driver, const Context& context,
                 const CUstreamBatchMemOpParams& params, std::vector<MemoryOperation>* operations) {
  MemoryOperation operation;
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: {
      const unsigned flags = params.waitValue.flags;
      if ((flags & ~(kConditions | unsigned{CU_STREAM_WAIT_VALUE_FLUSH})) != 0)
        return CUDA_ERROR_INVALID_VALUE;
      operation = Read(params.waitValue);
      operation.wait = true;
      operation.condition = flags & kConditions;
      break;
    }
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      if (params.writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
      operation = Read(params.writeValue);
      break;
    case CU_STREAM_MEM_OP_BARRIER:
      return params.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return params.flushRemoteWrites.flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (operation.address % operation.width != 0 ||
      !driver.addresses.Accessible(operation.address, operation.width, context.device(),
                                   !operation.wait))
    return CUDA_ERROR_INVALID_VALUE;
  operations->push_back(operation);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult PrepareMemoryBatch(const Driver& driver, const Context& context, unsigned count,
                            const CUstreamBatchMemOpParams* params, unsigned flags,
                            std::vector<MemoryOperation>* operations) {
  if (count == 0 || count >= kOperationsLimit || params == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    CUSPAN_SOFT_RETURN_IF_ERROR(Prepare(driver, context, params[i], operations));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned count,
                                                    CUstreamBatchMemOpParams* params,
                                                    unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  std::vector<MemoryOperation> operations;
  CUSPAN_SOFT_RETURN_IF_ERROR(
      PrepareMemoryBatch(*driver, *entry.context, count, params, flags, &operations));
  if (operations.empty()) return CUDA_SUCCESS;
  entry.context->streams().Enqueue(
      *entry.stream, std::make_unique<MemoryBatchTask>(std::move(operations),
                                                       entry.stream->priority(), entry.context));
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
