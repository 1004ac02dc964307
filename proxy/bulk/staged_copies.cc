#include "proxy/bulk/staged_copies.h"

#include <algorithm>
#include <utility>

#include "protocol/wire/frame.h"

namespace cuspan::proxy {

template <typename Copy>
CUresult StagedCopies::Submit(const StagedPiece& piece, Stream& stream, Completion done,
                              Copy&& copy) {
  PooledEvent event;
  CUresult result = events_.Acquire(event);
  Timeline::Start start = timeline_.Begin(stream.driver);
  if (result == CUDA_SUCCESS) result = copy();
  if (result == CUDA_SUCCESS) {
    ++stream.submitted;
    result = driver_.cuEventRecord(event.get(), stream.driver);
  }
  if (result != CUDA_SUCCESS) return result;
  // Points of a stream are added in the order of their events. The timeline records its own now.
  completer_.Add(stream.progress, std::move(event), stream.submitted, std::move(done));
  timeline_.End(std::move(start), stream, piece.kind, piece.copy, piece.offset, piece.bytes);
  return CUDA_SUCCESS;
}

CUresult StagedCopies::ToDevice(const DeviceBox& box, const StagedPiece& piece,
                                const std::byte* slot, Stream& stream, Completion done) {
  return Submit(piece, stream, std::move(done), [&] {
    return IsRun(box) ? driver_.cuMemcpyHtoDAsync(box.location.address + piece.offset, slot,
                                                  piece.bytes, stream.driver)
                      : CopyToBox(driver_, box, piece.offset, slot, piece.bytes, stream.driver);
  });
}

CUresult StagedCopies::FromMemory(const DeviceBox& box, const StagedPiece& piece,
                                  const std::byte* bytes, Stream& stream) {
  Timeline::Start start = timeline_.Begin(stream.driver);
  // The driver copies small amounts before it returns, and would wait for the stream with others.
  for (std::uint32_t at = 0; at < piece.bytes; at += kMaxInlineBytes) {
    StagedPiece part = piece;
    part.offset += at;
    part.bytes = std::min<std::uint32_t>(piece.bytes - at, kMaxInlineBytes);
    const CUresult result =
        IsRun(box)
            ? driver_.cuMemcpyHtoDAsync(box.location.address + part.offset, bytes + at, part.bytes,
                                        stream.driver)
            : CopyRowsToBox(driver_, box, part.offset, bytes + at, part.bytes, stream.driver);
    if (result != CUDA_SUCCESS) return result;
  }
  timeline_.End(std::move(start), stream, piece.kind, piece.copy, piece.offset, piece.bytes);
  return CUDA_SUCCESS;
}

CUresult StagedCopies::FromDevice(const DeviceBox& box, const StagedPiece& piece, std::byte* slot,
                                  Stream& stream, Completion done) {
  return Submit(piece, stream, std::move(done), [&] {
    return IsRun(box) ? driver_.cuMemcpyDtoHAsync(slot, box.location.address + piece.offset,
                                                  piece.bytes, stream.driver)
                      : CopyFromBox(driver_, box, piece.offset, slot, piece.bytes, stream.driver);
  });
}

}  // namespace cuspan::proxy
