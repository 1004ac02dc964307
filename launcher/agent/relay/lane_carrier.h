// Carrier of an agent with lanes. Each lane gets its sends and receives over a channel of its own,
// and maps the channels whose slots it uses. Lanes carry only bulk, so frames never wait behind it
// in one connection.
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
  // `lanes`: sockets to the lanes. `bell` is the agent's and outlives the carrier.
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
  std::optional<Transport::LostPeer> ConsumeLost() override;
  void GiveUp(std::uint32_t agent) override;
  void End() override;

 private:
  struct Lane {
    ControlSocket socket;
    std::unique_ptr<Channel> channel;
    std::deque<std::vector<std::byte>> commands;  // Waiting for room in its ring.
  };
  struct Known {
    std::uint32_t number;
    std::uint32_t uses;
  };
  LaneCarrier() = default;
  static Result<Lane> Admit(ControlSocket socket, Bell& bell);
  void ReceiveMessages(Lane& lane);
  template <typename T>
  void SendCommand(std::uint32_t lane, const T& command);
  static void Flush(Lane& lane);
  // Number of an attached channel; 0, unknown to lanes, for others.
  std::uint32_t NumberOf(Channel* channel) const;

  std::vector<Lane> lanes_;
  std::map<Channel*, Known> channels_;  // Attached channels.
  std::uint32_t last_number_ = 0;
  // Reports of lanes, not consumed yet.
  std::vector<std::uint64_t> finished_;
  std::deque<Transport::LostPeer> lost_;
};

// Carrier of an agent's bulk: its lanes if it has any, else the agent itself.
Result<std::unique_ptr<Carrier>> MakeCarrier(Transport& transport, std::vector<ControlSocket> lanes,
                                             Bell& bell);

}  // namespace cuspan
