#include "interpose/calls/copy_batch.h"

#include "interpose/calls/copy.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {
namespace {

bool IsReadDuringCall(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

// True for a valid hint. Hints have no effect: the addresses tell the locations.
bool IsHint(const Session& session, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_INVALID:
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return true;
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return HasDevice(session, location.id);
    default:
      return false;
  }
}

bool AreAttributes(CUmemcpySrcAccessOrder order, unsigned flags) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
         (flags & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}) == 0;
}
bool AreAttributes(const Session& session, const CUmemcpyAttributes& attributes) {
  return AreAttributes(attributes.srcAccessOrder, attributes.flags) &&
         IsHint(session, attributes.srcLocHint) && IsHint(session, attributes.dstLocHint);
}

// True if a posted copy has already read the source: pageable memory is read before a call returns.
// CUDA waits for the stream in the other cases, too (measured natively).
bool WasRead(Session& session, const void* source) {
  return source != nullptr &&
         session.addresses().Classify(source).kind == PointerKind::kUnknownHost;
}

// Converts `operand` to an end of a box; positions and lengths are in elements of `element` bytes.
// Length 0 means no gaps.
Error EndOfOperand(const CUmemcpy3DOperand& operand, const CUextent3D& extent, std::size_t element,
                   BoxEnd* end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const CUoffset3D& offset = operand.op.array.offset;
    end->array = NumberOf(operand.op.array.array);
    end->y = offset.y;
    end->z = offset.z;
    const bool overflow = __builtin_mul_overflow(offset.x, element, &end->x);
    return end->array == 0 || overflow ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  const auto& memory = operand.op.ptr;
  if ((memory.rowLength != 0 && memory.rowLength < extent.width) ||
      (memory.layerHeight != 0 && memory.layerHeight < extent.height))
    return CUDA_ERROR_INVALID_VALUE;
  end->pointer = HandleOf<void*>(memory.ptr);
  end->plane_rows = memory.layerHeight != 0 ? memory.layerHeight : extent.height;
  const std::size_t row = memory.rowLength != 0 ? memory.rowLength : extent.width;
  const bool overflow = __builtin_mul_overflow(row, element, &end->pitch);
  return end->pointer == nullptr || overflow ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Bytes of an array's element. 0 for memory: it is measured in elements of the other side.
Error ElementOf(Session& session, const CUmemcpy3DOperand& operand, std::size_t* bytes) {
  *bytes = 0;
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_SUCCESS;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY || operand.op.array.array == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<const Array> array;
  CUSPAN_RETURN_IF_FAILED(FindArray(session, NumberOf(operand.op.array.array), &array));
  *bytes = array->element_bytes();
  return CUDA_SUCCESS;
}

Error BoxOfCopy(Session& session, const CUDA_MEMCPY3D_BATCH_OP& copy, BoxRequest* box) {
  const CUextent3D& extent = copy.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0 ||
      !AreAttributes(copy.srcAccessOrder, copy.flags))
    return CUDA_ERROR_INVALID_VALUE;
  std::size_t to = 0;
  std::size_t from = 0;
  CUSPAN_RETURN_IF_FAILED(ElementOf(session, copy.dst, &to));
  CUSPAN_RETURN_IF_FAILED(ElementOf(session, copy.src, &from));
  if (to != 0 && from != 0 && to != from) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t element = to != 0 ? to : from != 0 ? from : 1;
  *box = {};
  box->extent = {0, extent.height, extent.depth};
  if (__builtin_mul_overflow(extent.width, element, &box->extent.width))
    return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(EndOfOperand(copy.dst, extent, element, &box->destination));
  return EndOfOperand(copy.src, extent, element, &box->source);
}

// Calls body(Session&, const StreamTarget&) → Error if the stream may run batches.
template <typename Body>
Error InStreamOfBatch(CUstream stream, DefaultStream meaning, Body&& body) {
  if (IsLegacyStream(stream, meaning)) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (AnyCapture(session) && CaptureOf(target).status != CU_STREAM_CAPTURE_STATUS_NONE)
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->ConsumePostedFailure();
  });
}

// Calls post(copy, bool* wait) → Error for `count` copies until one fails. Waits for the stream if
// a copy posted before requests it.
template <typename Post>
Error PostAll(Session& session, const StreamTarget& target, std::size_t count, std::size_t* failed,
              Post&& post) {
  bool wait = false;
  Error result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < count && !result.failed(); ++i) {
    result = post(i, &wait);
    if (result.failed()) *failed = i;
  }
  if (!wait) return result;
  const Error waited = session.streams().Synchronize(target);
  return result.failed() ? result : waited;
}

Error PostRun(Session& session, const StreamTarget& target, const RunWithAttributes& run,
              bool* wait) {
  if (run.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(CopyBytes(session, target, run.destination, run.source, run.bytes,
                                    CopySides::kDefault, true));
  *wait |= IsReadDuringCall(run.attributes.srcAccessOrder) && !WasRead(session, run.source);
  return CUDA_SUCCESS;
}

Error PostBox(Session& session, const StreamTarget& target, const BoxRequest& box,
              CUmemcpySrcAccessOrder order, bool* wait) {
  CUSPAN_RETURN_IF_FAILED(CopyBox(session, target, box, true));
  *wait |= IsReadDuringCall(order) && !WasRead(session, box.source.pointer);
  return CUDA_SUCCESS;
}

}  // namespace

Error CopyBatch(const std::vector<RunWithAttributes>& runs, CUstream stream, DefaultStream meaning,
                std::size_t* failed) {
  std::size_t unused = 0;
  std::size_t* const failure = failed != nullptr ? failed : &unused;
  *failure = SIZE_MAX;
  return InStreamOfBatch(
      stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
        for (const RunWithAttributes& run : runs)
          if (!AreAttributes(session, run.attributes)) return CUDA_ERROR_INVALID_VALUE;
        return PostAll(session, target, runs.size(), failure, [&](std::size_t i, bool* wait) {
          return PostRun(session, target, runs[i], wait);
        });
      });
}

Error CopyBatch(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count, unsigned long long flags,
                CUstream stream, DefaultStream meaning, std::size_t* failed) {
  std::size_t unused = 0;
  std::size_t* const failure = failed != nullptr ? failed : &unused;
  *failure = SIZE_MAX;
  if (copies == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return InStreamOfBatch(
      stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
        std::vector<BoxRequest> boxes(count);
        for (std::size_t i = 0; i < count; ++i) {
          if (const Error error = BoxOfCopy(session, copies[i], &boxes[i]); error.failed()) {
            *failure = i;
            return error;
          }
        }
        return PostAll(session, target, count, failure, [&](std::size_t i, bool* wait) {
          return PostBox(session, target, boxes[i], copies[i].srcAccessOrder, wait);
        });
      });
}

Error CopyWithAttributes(const RunWithAttributes& run, CUstream stream, DefaultStream meaning) {
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    return AreAttributes(session, run.attributes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }));
  if (!IsReadDuringCall(run.attributes.srcAccessOrder))
    return Copy(run.destination, run.source, run.bytes, CopySides::kDefault, true, stream, meaning);
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    if (run.bytes == 0) return CUDA_SUCCESS;
    std::size_t unused = 0;
    return PostAll(session, target, 1, &unused,
                   [&](std::size_t, bool* wait) { return PostRun(session, target, run, wait); });
  });
}

Error CopyWithAttributes(const CUDA_MEMCPY3D_BATCH_OP& copy, unsigned long long flags,
                         CUstream stream, DefaultStream meaning) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto post = [&](Session& session, const StreamTarget& target) -> Error {
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxOfCopy(session, copy, &box));
    std::size_t unused = 0;
    return PostAll(session, target, 1, &unused, [&](std::size_t, bool* wait) {
      return PostBox(session, target, box, copy.srcAccessOrder, wait);
    });
  };
  if (IsReadDuringCall(copy.srcAccessOrder)) return OnStream(stream, meaning, post);
  return InStream(stream, meaning, post,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    BoxRequest box;
                    CUSPAN_RETURN_IF_FAILED(BoxOfCopy(session, copy, &box));
                    return DescribeCopy(box, work);
                  });
}

}  // namespace cuspan
