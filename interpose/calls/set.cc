#include "interpose/calls/set.h"

#include "interpose/calls/base/synchronous_memory.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/pinned.h"
#include "protocol/api/box.h"

namespace cuspan {
namespace {

// True if first and last byte of the area are in one allocation.
bool IsInside(Session& session, const FillArea& area) {
  const auto span = SpannedBytes({area.width, area.rows, 1}, area.pitch, area.rows);
  return span && session.addresses().Holds(area.start, *span);
}

// Waits if the program may access shared memory itself after the call, or requires it complete.
Error WaitIfSeen(Session& session, const StreamTarget& target, std::uint64_t start,
                 bool asynchronous) {
  const bool seen = session.region().Contains(start) &&
                    (!asynchronous || session.managed_variables().Contains(start));
  const bool wait = seen || (!asynchronous && IsSynchronous(session, HandleOf<const void*>(start)));
  return wait ? Error(session.streams().Synchronize(target)) : Error(CUDA_SUCCESS);
}

Error FillOn(Session& session, const StreamTarget& target, const FillArea& area, int value,
             bool asynchronous) {
  if (area.width == 0 || area.rows == 0) return CUDA_SUCCESS;
  if (area.rows > 1 && area.pitch < area.width) return CUDA_ERROR_INVALID_VALUE;
  // Checked before the first row is written.
  if (!IsInside(session, area)) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t start = NumberOf(area.start);
  const auto byte = static_cast<std::uint32_t>(value) & 0xff;
  if (area.rows == 1 || area.pitch == area.width) {
    CUSPAN_RETURN_IF_FAILED(
        session.sets().Elements(start, byte, 1, area.width * area.rows, target));
  } else {
    CUSPAN_RETURN_IF_FAILED(
        session.sets().Rows({start, area.pitch, area.width, area.rows, byte}, target));
  }
  return WaitIfSeen(session, target, start, asynchronous);
}

// Bytes from the first to the last set one; 0 if their number does not fit.
std::uint64_t BytesOf(const CUDA_MEMSET_NODE_PARAMS& set) {
  std::uint64_t width = 0;
  if (__builtin_mul_overflow(std::uint64_t{set.width}, std::uint64_t{set.elementSize}, &width))
    return 0;
  return SpannedBytes({width, set.height, 1}, set.pitch, set.height).value_or(0);
}

// Sets the rows of `set`, beginning at `start`.
Error SetReached(Session& session, const StreamTarget& target, std::uint64_t start,
                 const CUDA_MEMSET_NODE_PARAMS& set) {
  if (set.elementSize == 1) {
    return FillOn(session, target, {HandleOf<void*>(start), set.pitch, set.width, set.height},
                  static_cast<int>(set.value), true);
  }
  std::size_t width = 0;
  if (__builtin_mul_overflow(set.width, std::size_t{set.elementSize}, &width))
    return CUDA_ERROR_INVALID_VALUE;
  if (!IsInside(session, {HandleOf<void*>(start), set.pitch, width, set.height}))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t row = 0; row < set.height; ++row) {
    CUSPAN_RETURN_IF_FAILED(session.sets().Elements(start + row * set.pitch, set.value,
                                                    set.elementSize, set.width, target));
  }
  return CUDA_SUCCESS;
}

}  // namespace

Error Fill(const FillArea& area, int value, bool asynchronous, CUstream stream,
           DefaultStream meaning) {
  const auto fill = [&](Session& session, const StreamTarget& target) -> Error {
    const auto bytes = SpannedBytes({area.width, area.rows, 1}, area.pitch, area.rows);
    return WritePinned(session, *target.connection, NumberOf(area.start), bytes.value_or(0),
                       [&](std::uint64_t start) {
                         return FillOn(session, target,
                                       {HandleOf<void*>(start), area.pitch, area.width, area.rows},
                                       value, asynchronous);
                       });
  };
  if (!asynchronous) return OnStream(stream, meaning, fill);
  return InStream(stream, meaning, fill, [&](Session&, const StreamTarget&, Work* work) -> Error {
    *work = SetWork{{NumberOf(area.start), area.pitch, static_cast<unsigned>(value) & 0xff, 1,
                     area.width, area.rows}};
    return CUDA_SUCCESS;
  });
}

Error FillElements(const CUDA_MEMSET_NODE_PARAMS& set, bool asynchronous, CUstream stream,
                   DefaultStream meaning) {
  std::size_t width = 0;
  if (set.dst % set.elementSize != 0 ||
      __builtin_mul_overflow(set.width, std::size_t{set.elementSize}, &width) ||
      (set.height > 1 && (set.pitch < width || set.pitch % set.elementSize != 0)))
    return CUDA_ERROR_INVALID_VALUE;
  const auto fill = [&](Session& session, const StreamTarget& target) -> Error {
    if (set.width == 0 || set.height == 0) return CUDA_SUCCESS;
    return WritePinned(session, *target.connection, set.dst, BytesOf(set),
                       [&](std::uint64_t start) -> Error {
                         CUSPAN_RETURN_IF_FAILED(SetReached(session, target, start, set));
                         return WaitIfSeen(session, target, start, asynchronous);
                       });
  };
  if (!asynchronous) return OnStream(stream, meaning, fill);
  return InStream(stream, meaning, fill, [&](Session&, const StreamTarget&, Work* work) -> Error {
    *work = SetWork{set};
    return CUDA_SUCCESS;
  });
}

Error SetElements(Session& session, const StreamTarget& target,
                  const CUDA_MEMSET_NODE_PARAMS& set) {
  return WritePinned(session, *target.connection, set.dst, BytesOf(set),
                     [&](std::uint64_t start) { return SetReached(session, target, start, set); });
}

}  // namespace cuspan
