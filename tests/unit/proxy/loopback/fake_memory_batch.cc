// cuStreamBatchMemOp of the fake GPU.
#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {

template <typename T>
CUresult FakeMemoryBatch::Do(const CUstreamBatchMemOpParams& operation, bool wait,
                             CUstream stream) {
  // A wait's address and value lie where a write's do.
  const CUdeviceptr address = operation.writeValue.address;
  const T wanted = static_cast<T>(operation.writeValue.value64);
  if (!fake->Mapped(address, sizeof(T)) || address % sizeof(T) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* const place = reinterpret_cast<T*>(fake->Memory(address));
  if (!wait) return fake->Enqueue(stream, "write-value", [=] { *place = wanted; });
  const bool equal = operation.waitValue.flags == CU_STREAM_WAIT_VALUE_EQ;
  return fake->Enqueue(
      stream, "wait-value", [] {}, [=] { return equal ? *place == wanted : *place >= wanted; });
}

CUresult FakeMemoryBatch::Call(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams* operations, unsigned) {
  std::scoped_lock lock(fake->mutex_);
  CUresult result = fake->Refusal("cuStreamBatchMemOp");
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    const CUstreamBatchMemOpParams& operation = operations[i];
    switch (operation.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = Do<std::uint32_t>(operation, operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                   stream);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = Do<std::uint64_t>(operation, operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64,
                                   stream);
        break;
      default:
        result = fake->Enqueue(stream, "barrier", [] {});
    }
  }
  return result;
}

}  // namespace cuspan::proxy
