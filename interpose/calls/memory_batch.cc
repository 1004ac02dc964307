#include "interpose/calls/memory_batch.h"

#include <algorithm>
#include <optional>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/context.h"
#include "interpose/calls/graph/in_stream.h"

namespace cuspan {
namespace {

constexpr unsigned kOperationsLimit = 256;  // Exclusive limit.
constexpr unsigned kConditions = 3;         // Condition bits of CUstreamWaitValue_flags.
constexpr unsigned kFlush = CU_STREAM_WAIT_VALUE_FLUSH;

// Value waited for or written by an operation; barriers and flushes have none.
struct ValueInMemory {
  std::uint64_t address;
  std::uint64_t value;
  unsigned bytes;
  bool written;
};
std::optional<ValueInMemory> ValueOf(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return ValueInMemory{operation.waitValue.address, operation.waitValue.value, 4, false};
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return ValueInMemory{operation.waitValue.address, operation.waitValue.value64, 8, false};
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return ValueInMemory{operation.writeValue.address, operation.writeValue.value, 4, true};
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return ValueInMemory{operation.writeValue.address, operation.writeValue.value64, 8, true};
    default:
      return std::nullopt;
  }
}

unsigned FlagsOf(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_BARRIER:
      return operation.memoryBarrier.flags;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return operation.flushRemoteWrites.flags;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return operation.waitValue.flags;
    default:
      return operation.writeValue.flags;
  }
}

// Flags allowed for an operation of this kind, in this form of the functions; nullopt for an
// unknown operation.
std::optional<unsigned> KnownFlags(CUstreamBatchMemOpType kind, MemoryOperationForm form) {
  const bool first = form == MemoryOperationForm::kFirst;
  switch (kind) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return kConditions | kFlush;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return first ? unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER} : 0U;
    case CU_STREAM_MEM_OP_BARRIER:
      return first ? std::nullopt : std::optional(unsigned{CU_STREAM_MEMORY_BARRIER_TYPE_GPU});
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return 0U;
    default:
      return std::nullopt;
  }
}

bool HasAbility(const DeviceDescription& device, const CUstreamBatchMemOpParams& operation) {
  const auto can = [&](CUdevice_attribute ability) {
    return VisibleAttribute(device, ability) != 0;
  };
  const std::optional<ValueInMemory> value = ValueOf(operation);
  const unsigned flags = FlagsOf(operation);
  const bool waits = value && !value->written;
  const bool flushes = operation.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES ||
                       (waits && (flags & kFlush) != 0);
  const bool nor = waits && (flags & kConditions) == CU_STREAM_WAIT_VALUE_NOR;
  const bool wide = value && value->bytes == 8;
  return (!wide || can(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)) &&
         (!nor || can(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR)) &&
         (!flushes || can(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES));
}

// Checks the address of a value: memory of the device of `connection`, or a peer's memory it can
// access.
Error FindMemory(Session& session, ContextConnection& connection, const ValueInMemory& value) {
  if (value.address % value.bytes != 0 || session.region().IsManaged(value.address))
    return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(session.region().Expose(value.address));
  if (connection.memory().Covers(value.address, value.bytes)) return CUDA_SUCCESS;
  const auto owner = session.addresses().ConnectionOf(HandleOf<const void*>(value.address));
  const bool reached = owner != nullptr && owner->memory().Covers(value.address, value.bytes) &&
                       session.peer_memory().Reach(connection, *owner, value.address);
  return reached ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Error Describe(Session& session, ContextConnection& connection, unsigned count,
               const CUstreamBatchMemOpParams* operations, unsigned flags, MemoryOperationForm form,
               MemoryBatchWork* work) {
  if (count == 0 || count >= kOperationsLimit || operations == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceDescription& device = session.devices().description(connection.device());
  for (unsigned i = 0; i < count; ++i) {
    const std::optional<unsigned> known = KnownFlags(operations[i].operation, form);
    if (!known || (FlagsOf(operations[i]) & ~*known) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!HasAbility(device, operations[i])) return CUDA_ERROR_NOT_SUPPORTED;
    if (const auto value = ValueOf(operations[i]))
      CUSPAN_RETURN_IF_FAILED(FindMemory(session, connection, *value));
  }
  work->device = connection.device();
  work->operations.assign(operations, operations + count);
  return CUDA_SUCCESS;
}

Error Post(const StreamTarget& target, const MemoryBatchWork& work) {
  MemoryBatch op;
  op.stream = target.stream;
  op.operations = OperationsOf(work);
  return target.connection->Post(op);
}

}  // namespace

Error BatchMemoryOperations(CUstream stream, DefaultStream meaning, unsigned count,
                            const CUstreamBatchMemOpParams* operations, unsigned flags,
                            MemoryOperationForm form) {
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        MemoryBatchWork work;
        CUSPAN_RETURN_IF_FAILED(
            Describe(session, *target.connection, count, operations, flags, form, &work));
        return Post(target, work);
      },
      [&](Session& session, const StreamTarget& target, Work* work) -> Error {
        MemoryBatchWork described;
        described.context = HandleOf(&target.connection->context());
        CUSPAN_RETURN_IF_FAILED(
            Describe(session, *target.connection, count, operations, flags, form, &described));
        *work = std::move(described);
        return CUDA_SUCCESS;
      });
}

Error DescribeMemoryBatch(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters, Work* work) {
  return WithSession([&](Session& session) -> Error {
    Context* context = &session.devices().CurrentContext();
    if (parameters.ctx != nullptr)
      CUSPAN_RETURN_IF_FAILED(FindContext(session, parameters.ctx, &context));
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().Open(*context, &connection));
    MemoryBatchWork described;
    described.context = parameters.ctx;
    CUSPAN_RETURN_IF_FAILED(Describe(session, *connection, parameters.count, parameters.paramArray,
                                     parameters.flags, MemoryOperationForm::kSecond, &described));
    *work = std::move(described);
    return CUDA_SUCCESS;
  });
}

std::vector<MemoryOperation> OperationsOf(const MemoryBatchWork& work) {
  std::vector<MemoryOperation> out;
  for (const CUstreamBatchMemOpParams& operation : work.operations) {
    MemoryOperation& sent = out.emplace_back();
    sent.kind = static_cast<std::uint32_t>(operation.operation);
    sent.flags = FlagsOf(operation);
    const std::optional<ValueInMemory> value = ValueOf(operation);
    if (!value) continue;
    sent.address = value->address;
    sent.value = value->value;
    // The flag only permits writes without a fence. The second form does not have it.
    if (value->written) sent.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  }
  return out;
}

Error PostMemoryBatch(Session& session, const StreamTarget& target, const MemoryBatchWork& work) {
  for (const CUstreamBatchMemOpParams& operation : work.operations)
    if (const auto value = ValueOf(operation))
      CUSPAN_RETURN_IF_FAILED(FindMemory(session, *target.connection, *value));
  return Post(target, work);
}

bool AreAlike(const MemoryBatchWork& one, const MemoryBatchWork& other) {
  const auto fixed_flags = [](const CUstreamBatchMemOpParams& operation) {
    const bool wait = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                      operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return wait ? FlagsOf(operation) & ~kConditions : FlagsOf(operation);
  };
  return one.device == other.device &&
         std::equal(one.operations.begin(), one.operations.end(), other.operations.begin(),
                    other.operations.end(), [&](const auto& a, const auto& b) {
                      return a.operation == b.operation && fixed_flags(a) == fixed_flags(b);
                    });
}

}  // namespace cuspan
