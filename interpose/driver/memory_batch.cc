// Stream memory operations.
#include "interpose/calls/memory_batch.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

CUresult Batch(CUstream stream, DefaultStream meaning, unsigned count,
               const CUstreamBatchMemOpParams* operations, unsigned flags,
               MemoryOperationForm form) {
  return InHostFunctionsToo(stream, [&] {
    return AnswerInContext([&](Session&) {
      return BatchMemoryOperations(stream, meaning, count, operations, flags, form);
    });
  });
}

// A wait for a value, or a write of a value.
CUresult Single(CUstream stream, DefaultStream meaning, CUstreamBatchMemOpType kind,
                CUdeviceptr address, cuuint64_t value, unsigned flags, MemoryOperationForm form) {
  CUstreamBatchMemOpParams operation{};
  const auto fill = [&](auto& params) {
    params.operation = kind;
    params.address = address;
    params.value64 = value;
    params.flags = flags;
  };
  if (kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64)
    fill(operation.waitValue);
  else
    fill(operation.writeValue);
  return Batch(stream, meaning, 1, &operation, 0, form);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Defines the five functions of one form.
#define CUSPAN_EXPORT_MEMORY_OPERATIONS(suffix, form)                                          \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuStreamWaitValue32##suffix, _ptsz,                                                      \
      (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),                \
      Single(stream, meaning, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags, form))    \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuStreamWaitValue64##suffix, _ptsz,                                                      \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),                \
      Single(stream, meaning, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags, form))    \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuStreamWriteValue32##suffix, _ptsz,                                                     \
      (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),                \
      Single(stream, meaning, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags, form))   \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuStreamWriteValue64##suffix, _ptsz,                                                     \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),                \
      Single(stream, meaning, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags, form))   \
  CUSPAN_EXPORT_TWINS(                                                                         \
      cuStreamBatchMemOp##suffix, _ptsz,                                                       \
      (CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags), \
      Batch(stream, meaning, count, operations, flags, form))

CUSPAN_EXPORT_MEMORY_OPERATIONS(_v2, MemoryOperationForm::kSecond)
// Forms before CUDA 11.7.
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
CUSPAN_EXPORT_MEMORY_OPERATIONS(, MemoryOperationForm::kFirst)
