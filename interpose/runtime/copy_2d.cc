// Copies of rows that lie a pitch apart.
#include <algorithm>
#include <cstring>
#include <vector>

#include "interpose/runtime/copy_kind.h"

namespace cuspan {
namespace {

struct RowsCopy {
  void* destination;
  std::size_t destination_pitch;
  const void* source;
  std::size_t source_pitch;
  std::size_t width;
  std::size_t rows;
  cudaMemcpyKind kind;
  bool asynchronous;
};

// Bytes from the first to the last one of all rows; 0 when they are more than there can be.
std::size_t Span(std::size_t pitch, std::size_t width, std::size_t rows) {
  std::size_t span = 0;
  if (__builtin_mul_overflow(pitch, rows - 1, &span) ||
      __builtin_add_overflow(span, width, &span)) {
    return 0;
  }
  return span;
}

// Whether [pointer, pointer + span) may be used; host memory is the program's own affair.
bool IsInside(Session& session, const void* pointer, std::size_t span) {
  const Session::PointerKind kind = session.Classify(pointer);
  if (kind.kind != Session::PointerKind::kDevice) return true;
  return kind.range_bytes != 0 &&
         span <= kind.range_bytes - (NumberOf(pointer) - kind.range_base);
}

// From a device to memory that the call fills before it returns: all that lies
// between the first and the last byte comes in one copy, so that there is not
// one wait a row.
Error GatherFromDevice(Session& session, const StreamTarget& target, const RowsCopy& copy,
                       std::size_t span) {
  std::vector<std::byte> bytes(span);
  CUSPAN_RETURN_IF_FAILED(
      CopyBytes(session, target, bytes.data(), copy.source, span, cudaMemcpyDeviceToHost, false));
  for (std::size_t row = 0; row < copy.rows; ++row) {
    std::memcpy(static_cast<std::byte*>(copy.destination) + row * copy.destination_pitch,
                bytes.data() + row * copy.source_pitch, copy.width);
  }
  return cudaSuccess;
}

Error CopyRows(Session& session, const StreamTarget& target, const RowsCopy& copy) {
  if (copy.width == 0 || copy.rows == 0) return cudaSuccess;
  Session::CopyRequest::Sides sides{};
  CUSPAN_RETURN_IF_FAILED(SidesOf(copy.kind, &sides));
  if (copy.width > copy.destination_pitch || copy.width > copy.source_pitch) {
    return cudaErrorInvalidPitchValue;
  }
  if (copy.destination == nullptr || copy.source == nullptr) return cudaErrorInvalidValue;
  const std::size_t destination_span = Span(copy.destination_pitch, copy.width, copy.rows);
  const std::size_t source_span = Span(copy.source_pitch, copy.width, copy.rows);
  // Checked as a whole, before the first row is written.
  if (destination_span == 0 || source_span == 0 ||
      !IsInside(session, copy.destination, destination_span) ||
      !IsInside(session, copy.source, source_span)) {
    return cudaErrorInvalidValue;
  }
  if (destination_span == source_span && source_span == copy.width * copy.rows) {
    return CopyBytes(session, target, copy.destination, copy.source, source_span, copy.kind,
                     copy.asynchronous);
  }
  using Pointer = Session::PointerKind;
  const auto destination_kind = session.Classify(copy.destination).kind;
  const bool waits = destination_kind == Pointer::kUnknownHost ||
                     (destination_kind == Pointer::kPinnedHost && !copy.asynchronous);
  const bool from_device = session.Classify(copy.source).kind == Pointer::kDevice;
  if (waits && from_device && sides != Session::CopyRequest::Sides::kHostToDevice &&
      sides != Session::CopyRequest::Sides::kDeviceToDevice &&
      source_span / 4 <= copy.width * copy.rows) {
    return GatherFromDevice(session, target, copy, source_span);
  }
  for (std::size_t row = 0; row < copy.rows; ++row) {
    CUSPAN_RETURN_IF_FAILED(CopyBytes(
        session, target, static_cast<std::byte*>(copy.destination) + row * copy.destination_pitch,
        static_cast<const std::byte*>(copy.source) + row * copy.source_pitch, copy.width, copy.kind,
        copy.asynchronous));
  }
  return cudaSuccess;
}

Error Copy2D(const RowsCopy& copy, cudaStream_t stream, DefaultStream meaning) {
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) {
    return CopyRows(session, target, copy);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemcpy2D, _ptds,
                    (void* destination, std::size_t destination_pitch, const void* source,
                     std::size_t source_pitch, std::size_t width, std::size_t height,
                     cudaMemcpyKind kind),
                    Answer([&] {
                      return Copy2D({destination, destination_pitch, source, source_pitch, width,
                                     height, kind, false},
                                    nullptr, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DAsync, _ptsz,
                    (void* destination, std::size_t destination_pitch, const void* source,
                     std::size_t source_pitch, std::size_t width, std::size_t height,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    Answer([&] {
                      return Copy2D({destination, destination_pitch, source, source_pitch, width,
                                     height, kind, true},
                                    stream, meaning);
                    }))
