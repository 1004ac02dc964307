// Points behind the work submitted to a stream so far, and what happens when the device has reached
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "protocol/channel/channel.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/events.h"
#include "proxy/gpu/marks.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"

namespace cuspan::proxy {

// A mark of the client's channel, and the value for it.
struct ClientMark {
  ChannelMark* mark = nullptr;
  std::uint32_t value = 0;
};

// Threads: any with the device's context, but one at a time for each stream. Arguments: the stream,
// its progress, the stream as the completer knows it, and Stream::submitted.
class StreamPoints {
 public:
  // All references outlive it.
  StreamPoints(const Driver& driver, Channel& channel, Faults& faults, Completer& completer);

  // Events without timing: they are cheaper. Used for the proxy's own and for the program's without
  // timing.
  EventPool& events() { return events_; }

  // Calls `answer` when the point is reached: by a mark, or else by an event.
  void AddMark(CUstream driver, const std::shared_ptr<Completer::StreamProgress>& progress,
               std::shared_ptr<AskedStream> asked, std::uint64_t submitted, Answer answer);
  // Writes the client's mark if the work is complete, or has failed. False if it is still pending.
  bool TryMark(const std::shared_ptr<Completer::StreamProgress>& progress,
               const std::shared_ptr<AskedStream>& asked, std::uint64_t submitted,
               const ClientMark& mark);
  // The device writes the client's mark behind the pending work. If the driver refuses, the proxy
  // does.
  void PutMark(CUstream driver, const std::shared_ptr<Completer::StreamProgress>& progress,
               const std::shared_ptr<AskedStream>& asked, std::uint64_t submitted,
               const ClientMark& mark);
  // Writes the client's mark, for work with this result. Threads: any.
  void WriteMark(const ClientMark& mark, CUresult result);

 private:
  // WriteMark, called at the completion.
  Answer Writing(const ClientMark& mark);

  const Driver& driver_;
  Channel& channel_;
  Faults& faults_;
  Completer& completer_;
  EventPool events_;
  MarkPool marks_;
};

}  // namespace cuspan::proxy
