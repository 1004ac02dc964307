// Pieces of copies through staging slots: from a slot to the device, and from the device into a
// slot, in the order of a stream. The other end of the slots (the client, another proxy) is of no
// concern here.
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

// A piece of a copy in a slot.
struct StagedPiece {
  std::uint64_t copy;    // Its number, for the trace.
  std::uint64_t offset;  // Among the packed bytes of the box.
  std::uint32_t bytes;
  TraceKind kind;
};

// Threads: the receiving thread.
class StagedCopies {
 public:
  // All outlive it, but for the completer and the timeline, which are used until they end. `events`
  // are without times.
  StagedCopies(const Driver& driver, EventPool& events, Completer& completer, Timeline& timeline)
      : driver_(driver), events_(events), completer_(completer), timeline_(timeline) {}

  // Hands the piece to the driver in `stream`; `done` is due when the device is done with the slot.
  // After a failure, `done` is dropped.
  CUresult ToDevice(const DeviceBox& box, const StagedPiece& piece, const std::byte* slot,
                    Stream& stream, Completion done) CUSPAN_REQUIRES(receiving_thread);
  CUresult FromDevice(const DeviceBox& box, const StagedPiece& piece, std::byte* slot,
                      Stream& stream, Completion done) CUSPAN_REQUIRES(receiving_thread);

 private:
  // copy() → the driver's result.
  template <typename Copy>
  CUresult Submit(const StagedPiece& piece, Stream& stream, Completion done, Copy&& copy)
      CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  EventPool& events_;
  Completer& completer_;
  Timeline& timeline_;
};

}  // namespace cuspan::proxy
