// The carrier of an agent that has lanes: each is told over a channel of its own
// what to send and to receive, and maps the channels whose slots it uses. Nothing
// but bulk goes through them, so frames never wait behind it in one connection.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/relay/carrier.h"
#include "protocol/channel/socket.h"

namespace cuspan {

class LaneCarrier final : public Carrier {
 public:
  // Of lanes at the other ends of these sockets. `bell` is the agent's and outlives the carrier.
  static Result<std::unique_ptr<Carrier>> Start(std::vector<ControlSocket> lanes, Bell& bell);
  ~LaneCarrier() override;

  std::uint32_t lanes() const override { return static_cast<std::uint32_t>(lanes_.size()); }
  // The channel must have kept its descriptor.
  Status Attach(Channel& channel) override;
  void Detach(Channel& channel) override;
  void Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
            std::uint64_t id) override;
  void Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
               std::uint64_t id) override;
  void Expect(std::uint32_t lane, std::uint64_t id) override;
  void Cancel(std::uint32_t lane, std::uint64_t id) override;
  void Finished(std::vector<std::uint64_t>& ids) override;
  bool HasWork() override;
  std::optional<Transport::LostPeer> TakeLost() override;
  void GiveUp(std::uint32_t agent) override;
  void End() override;

 private:
  struct Lane {
    ControlSocket socket;
    std::unique_ptr<Channel> channel;
    std::deque<std::vector<std::byte>> commands;  // For which its ring had no room.
  };
  struct Known {
    std::uint32_t number;
    std::uint32_t uses;
  };
  LaneCarrier() = default;
  static Result<Lane> Admit(ControlSocket socket, Bell& bell);
  void TakeMessages(Lane& lane);
  template <typename T>
  void Tell(std::uint32_t lane, const T& command);
  static void Flush(Lane& lane);
  // Of an attached channel; 0, which no lane knows, for others.
  std::uint32_t NumberOf(Channel* channel) const;

  std::vector<Lane> lanes_;
  std::map<Channel*, Known> channels_;  // Those that are attached.
  std::uint32_t last_number_ = 0;
  // What they have said, and nobody has taken.
  std::vector<std::uint64_t> finished_;
  std::deque<Transport::LostPeer> lost_;
};

// What moves an agent's bulk: its lanes where there are some, else the agent itself.
Result<std::unique_ptr<Carrier>> MakeCarrier(Transport& transport, std::vector<ControlSocket> lanes,
                                             Bell& bell);

}  // namespace cuspan
