// Moves the bytes of chunks between the slots of channels on two nodes. Implemented by the agent
// itself or by its lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/relay/transport.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Part of a staging slot. `outgoing`: direction seen from this agent's side of the channel.
struct SlotBytes {
  Channel* channel;
  bool outgoing;
  std::uint32_t slot;
  std::uint32_t bytes;

  std::byte* data() const {
    return outgoing ? channel->OutgoingSlot(slot) : channel->IncomingSlot(slot);
  }
};

// Threads: one. Sends and receives work as those of Transport, but on one of several lanes between
// two agents; each lane keeps its own order.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual std::uint32_t lanes() const = 0;
  // A channel's slots may be used between Attach and Detach; calls nest.
  virtual Status Attach(Channel& channel) = 0;
  virtual void Detach(Channel& channel) = 0;

  virtual void Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
                    std::uint64_t id) = 0;
  virtual void Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
                       std::uint64_t id) = 0;
  virtual void Expect(std::uint32_t lane, std::uint64_t id) = 0;
  virtual void Cancel(std::uint32_t lane, std::uint64_t id) = 0;
  virtual void Finished(std::vector<std::uint64_t>& ids) = 0;
  // True if Finished may return ids; a cheap check for Bell::Wait.
  virtual bool HasWork() = 0;
  // ConsumeLost: next agent lost by one of the lanes; the agent's own transport reports its losses
  // separately. GiveUp: Transport::GiveUp on all lanes.
  virtual std::optional<Transport::LostPeer> ConsumeLost() { return std::nullopt; }
  virtual void GiveUp(std::uint32_t) {}
  // Called before the transport is shut down, with nothing in flight and nothing to follow.
  virtual void End() = 0;
};

// Moves bulk by the agent itself, over its own transport: one lane.
class OwnCarrier final : public Carrier {
 public:
  explicit OwnCarrier(Transport& transport) : transport_(transport) {}
  std::uint32_t lanes() const override { return 1; }
  Status Attach(Channel&) override { return Status::Ok(); }
  void Detach(Channel&) override {}
  void Send(std::uint32_t agent, std::uint32_t, std::uint32_t tag, SlotBytes bytes,
            std::uint64_t id) override {
    transport_.StartBulkSend(agent, tag, {bytes.data(), bytes.bytes}, id);
  }
  void Receive(std::uint32_t agent, std::uint32_t, std::uint32_t tag, SlotBytes bytes,
               std::uint64_t id) override {
    transport_.StartBulkReceive(agent, tag, {bytes.data(), bytes.bytes}, id);
  }
  void Expect(std::uint32_t, std::uint64_t id) override { transport_.ExpectBulk(id); }
  void Cancel(std::uint32_t, std::uint64_t id) override { transport_.CancelBulkReceive(id); }
  void Finished(std::vector<std::uint64_t>& ids) override { transport_.FinishedBulk(ids); }
  bool HasWork() override { return false; }  // MPI does not wake the agent.
  void End() override {}

 private:
  Transport& transport_;
};

}  // namespace cuspan
