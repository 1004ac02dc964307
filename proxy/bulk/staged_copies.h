// Copies between staging slots and the device, one piece at a time, in stream order. The other user
// of the slots (the client, another proxy) is not handled here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/gpu/boxes.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/events.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

// Piece of a copy in a slot.
struct StagedPiece {
  std::uint64_t copy;    // Number of the copy, for the trace.
  std::uint64_t offset;  // Offset in the packed bytes of the box.
  std::uint32_t bytes;
  TraceKind kind;
};

// Threads: the receiving thread.
class StagedCopies {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  // `events` are created without timing.
  StagedCopies(const Driver& driver, EventPool& events, Completer& completer, Timeline& timeline)
      : driver_(driver), events_(events), completer_(completer), timeline_(timeline) {}

  // Submits the piece in `stream`. `done` is executed when the device no longer uses the slot.
  // After a failure, `done` is dropped.
  CUresult ToDevice(const DeviceBox& box, const StagedPiece& piece, const std::byte* slot,
                    Stream& stream, Completion done) CUSPAN_REQUIRES(receiving_thread);
  // The same from memory free after the call: the driver copies the bytes, and the caller counts
  // them (PendingLimit).
  CUresult FromMemory(const DeviceBox& box, const StagedPiece& piece, const std::byte* bytes,
                      Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  CUresult FromDevice(const DeviceBox& box, const StagedPiece& piece, std::byte* slot,
                      Stream& stream, Completion done) CUSPAN_REQUIRES(receiving_thread);

 private:
  // copy() returns the driver's result.
  template <typename Copy>
  CUresult Submit(const StagedPiece& piece, Stream& stream, Completion done, Copy&& copy)
      CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  EventPool& events_;
  Completer& completer_;
  Timeline& timeline_;
};

}  // namespace cuspan::proxy
