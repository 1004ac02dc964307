// Frames on their way to one agent, collected into messages: control frames first, then those of
// routes. Each message costs bulk some time on the link, so a few frames may wait for company.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "launcher/agent/relay/batch.h"
#include "launcher/agent/relay/chunk_sends.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Threads: one.
class Outbox {
 public:
  // `sends`: bulk sends to the same agent. All outlive the outbox.
  Outbox(Transport& transport, std::uint32_t rank, const ChunkSends& sends)
      : transport_(transport),
        rank_(rank),
        sends_(sends),
        batch_(transport.limits().message_bytes) {}

  // Adds a control frame. Those over kMaxFrameBytes fit no message: they are logged and dropped.
  void AddControl(Op op, std::vector<std::byte> frame);
  // Adds a frame of a route, which may wait for company until Urge. False if the message is full
  // and cannot be sent now.
  bool Append(RouteKey route, const FrameHeader& header, Bytes payload);
  // Adds the announcement of a chunk, and returns its number, from 1; nothing like Append.
  std::optional<std::uint64_t> Announce(const FrameHeader& header, Bytes payload);
  // Sends the frames with the next call of Send.
  void Urge() { urgent_ = true; }
  // Lets them wait for the answer expected right behind them.
  void AwaitAnswer();
  bool awaits_answer() const { return held_until_.has_value(); }

  // Sends what may not wait. True if anything but keep-alives was sent.
  bool Send();
  bool empty() const { return control_.empty() && batch_.empty(); }
  // True if too many control frames are queued.
  bool congested() const;
  // Drops all frames, also those added later.
  void Close();

 private:
  bool MayHold() const;
  // Moves control frames into the batch; false if it is full before.
  bool AppendControl(bool& has_updates);

  Transport& transport_;
  const std::uint32_t rank_;
  const ChunkSends& sends_;
  std::deque<std::vector<std::byte>> control_;
  BatchWriter batch_;
  // Announcements may be held back until one of the announced chunks is being sent.
  bool closed_ = false;
  bool urgent_ = false;  // The batch must not be held back.
  // End of the batch's delay for an answer.
  std::optional<std::chrono::steady_clock::time_point> held_until_;
  std::uint64_t announced_ = 0;
  std::uint64_t announced_sent_ = 0;
};

// False for keep-alives: agents exchanging nothing else are idle.
inline bool IsUpdate(const RouteKey& route, Op op) {
  return route.session != 0 || op != Op::kAgentAlive;
}

}  // namespace cuspan
