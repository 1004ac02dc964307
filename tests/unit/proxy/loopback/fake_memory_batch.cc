// Implements cuStreamBatchMemOp of the fake GPU, and the registration of host memory.
#include <atomic>

#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {

template <typename T>
CUresult FakeMemoryBatch::Do(const CUstreamBatchMemOpParams& operation, bool wait,
                             CUstream stream) {
  // Waits and writes have address and value at the same offsets.
  const CUdeviceptr address = operation.writeValue.address;
  const T wanted = static_cast<T>(operation.writeValue.value64);
  if (!fake->Mapped(address, sizeof(T)) || address % sizeof(T) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* const destination = reinterpret_cast<T*>(fake->Memory(address));
  if (!wait)
    return fake->Enqueue(stream, "write-value", [=] {
      std::atomic_ref(*destination).store(wanted, std::memory_order_release);
    });
  const bool equal = operation.waitValue.flags == CU_STREAM_WAIT_VALUE_EQ;
  return fake->Enqueue(
      stream, "wait-value", [] {},
      [=] { return equal ? *destination == wanted : *destination >= wanted; });
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

CUresult FakeMemoryBatch::RegisterHost(void* memory, std::size_t bytes, unsigned) {
  std::scoped_lock lock(fake->mutex_);
  fake->host_memory_[reinterpret_cast<CUdeviceptr>(memory)] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeMemoryBatch::UnregisterHost(void* memory) {
  std::scoped_lock lock(fake->mutex_);
  fake->host_memory_.erase(reinterpret_cast<CUdeviceptr>(memory));
  return CUDA_SUCCESS;
}

CUresult FakeMemoryBatch::CheckNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch) {
  std::scoped_lock lock(fake->mutex_);
  if (batch.ctx == nullptr || batch.count == 0 || batch.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < batch.count; ++i)
    if (const CUresult result = CheckOperation(batch.paramArray[i]); result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult FakeMemoryBatch::CheckOperation(const CUstreamBatchMemOpParams& operation) {
  const CUstreamBatchMemOpType kind = operation.operation;
  const bool wait =
      kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  const bool write =
      kind == CU_STREAM_MEM_OP_WRITE_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  if (!wait && !write) {
    fake->log_.push_back("node barrier");
    return kind == CU_STREAM_MEM_OP_BARRIER ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const bool wide =
      kind == CU_STREAM_MEM_OP_WAIT_VALUE_64 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  const auto& destination = operation.writeValue;  // Offsets are the same in a wait.
  const std::size_t bytes = wide ? 8 : 4;
  if (!fake->Mapped(destination.address, bytes) || destination.address % bytes != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::string entry = wait ? "node wait-value" : "node write-value";
  for (const std::uint64_t number :
       {std::uint64_t{bytes}, std::uint64_t{destination.address},
        wide ? std::uint64_t{destination.value64} : std::uint64_t{destination.value},
        std::uint64_t{destination.flags}})
    entry += " " + std::to_string(number);
  fake->log_.push_back(std::move(entry));
  return CUDA_SUCCESS;
}

}  // namespace cuspan::proxy
