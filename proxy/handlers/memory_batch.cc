#include "proxy/handlers/memory_batch.h"

#include <algorithm>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

// CUDA's limit: fewer than 256.
constexpr std::size_t kMaxOperations = 255;

struct BatchOp final : PostedOp {
  using PostedOp::PostedOp;
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override {
    return operations.capacity() * sizeof(operations.front());
  }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!MayTouch(*session, operations)) return Finish(CUDA_ERROR_INVALID_VALUE);
    const auto count = static_cast<unsigned>(operations.size());
    return Finish(session->driver().cuStreamBatchMemOp(stream->driver, count, operations.data(), 0),
                  count);
  }

  MemoryOperations operations;
};

// `params`: parameters of a wait or a write.
template <typename Params>
void Fill(Params& params, const MemoryOperation& operation) {
  params.address = operation.address;
  params.value64 = operation.value;
  params.flags = operation.flags;
}

}  // namespace

Result<MemoryOperations> ReadOperations(const std::vector<MemoryOperation>& operations) {
  if (operations.empty() || operations.size() > kMaxOperations)
    return Status::Invalid("an invalid batch of {} memory operations", operations.size());
  MemoryOperations out;
  out.reserve(operations.size());
  for (const MemoryOperation& operation : operations) {
    CUstreamBatchMemOpParams& params = out.emplace_back();
    params.operation = static_cast<CUstreamBatchMemOpType>(operation.kind);
    switch (params.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        Fill(params.waitValue, operation);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        Fill(params.writeValue, operation);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
        params.memoryBarrier.flags = operation.flags;
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        params.flushRemoteWrites.flags = operation.flags;
        break;
      default:
        return Status::Invalid("a memory operation of the unknown kind {}", operation.kind);
    }
  }
  return out;
}

bool MayTouch(const DeviceSession& session, const MemoryOperations& operations) {
  return std::all_of(operations.begin(), operations.end(), [&](const auto& operation) {
    switch (operation.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return session.memory().MayTouch(operation.waitValue.address, 4);
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return session.memory().MayTouch(operation.waitValue.address, 8);
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return session.memory().MayTouch(operation.writeValue.address, 4);
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return session.memory().MayTouch(operation.writeValue.address, 8);
      default:
        return true;
    }
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryBatch& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  BatchOp batch(session, origin, std::move(stream));
  CUSPAN_ASSIGN_OR_RETURN(batch.operations, ReadOperations(op.operations));
  return Queue(session, std::move(batch));
}

}  // namespace cuspan::proxy
