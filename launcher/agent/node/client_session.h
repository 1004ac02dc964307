// One process's session with the agent of its node: its connection, and a channel and a proxy for
// each open context. Proxies run here or at another agent. Devices and their primary contexts have
// the numbers visible to the process (visible_devices.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/device_reports.h"
#include "launcher/agent/node/node_context.h"
#include "protocol/channel/reception.h"

namespace cuspan {

// Threads: one. A failure ends only its own session.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // Serves the connection until its end. `id`: number of the session. `reports`: receives the
  // process's use of each device. `context` and `reports` outlive the session. Processes outside
  // the run, or without resources left for them, get a refusal, returned as an error.
  static Result<std::shared_ptr<ClientSession>> Start(NodeContext& context,
                                                      Reception::Arrival arrival, std::uint32_t id,
                                                      DeviceReports& reports)
      CUSPAN_REQUIRES(agent_thread);

  std::uint32_t id() const CUSPAN_REQUIRES(agent_thread) { return id_; }
  bool ended() const CUSPAN_REQUIRES(agent_thread) { return ended_; }
  // Ends proxies, stores their statistics, closes the connection. `reason` is logged; empty: the
  // client has left.
  void End(const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // Adds the process's use of its open devices so far.
  void Measure(std::vector<DeviceMetrics>& devices) const CUSPAN_REQUIRES(agent_thread);

  // Messages of the agent `rank`, ignored unless it serves the device.
  void ReceiveRemoteOpened(std::uint32_t rank, const RemoteOpened& opened)
      CUSPAN_REQUIRES(agent_thread);
  void ReceiveRemoteLost(std::uint32_t rank, const RemoteLost& lost) CUSPAN_REQUIRES(agent_thread);
  // Handles the loss of an agent serving some of its devices.
  void LoseAgent(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // Message of the agent at the other end of a join.
  void ReceiveRemoteJoin(const RemoteJoin& join) CUSPAN_REQUIRES(agent_thread);

 private:
  enum class State { kOpening, kOpen, kClosing, kLost };
  // An open context.
  struct Device {
    std::uint32_t number = 0;  // Number of the device.
    AddressWindow window;
    State state = State::kOpening;
    bool relayed = false;
    UniqueFd channel_fd;  // Kept until passed to the client.
    std::shared_ptr<Channel> channel;
    std::shared_ptr<ProxyProcess> proxy;
  };

  ClientSession(NodeContext& context, ControlSocket socket, std::uint32_t id,
                DeviceReports& reports)
      : context_(context), socket_(std::move(socket)), id_(id), reports_(reports) {}
  // Called if the socket has room for kept messages, or input.
  void HandleSocket() CUSPAN_REQUIRES(agent_thread);
  void ReadSocket() CUSPAN_REQUIRES(agent_thread);
  void ReadLater(std::chrono::milliseconds delay) CUSPAN_REQUIRES(agent_thread);
  void UpdateInterest() CUSPAN_REQUIRES(agent_thread);
  Status ReceiveMessage(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  Status Introduce(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  Status Open(const OpenDevice& open) CUSPAN_REQUIRES(agent_thread);
  Status CheckOpen(const OpenDevice& open) const CUSPAN_REQUIRES(agent_thread);
  // Address window for a context to be opened.
  Result<AddressWindow> WindowFor(const OpenDevice& open) const CUSPAN_REQUIRES(agent_thread);
  Status OpenHere(const OpenDevice& open, UniqueFd shared_file, Device& device)
      CUSPAN_REQUIRES(agent_thread);
  Status OpenRemote(const OpenDevice& open, Device& device) CUSPAN_REQUIRES(agent_thread);
  Status Close(std::uint32_t context) CUSPAN_REQUIRES(agent_thread);
  Status Join(const JoinDevices& join) CUSPAN_REQUIRES(agent_thread);
  void ReceiveReady(std::uint32_t context, const ProxyReady& ready) CUSPAN_REQUIRES(agent_thread);
  void HandleGone(std::uint32_t context, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // `opened`: a ProxyReady or a RemoteOpened.
  template <typename Opened>
  void AnswerOpened(std::uint32_t context, const Opened& opened, int bell)
      CUSPAN_REQUIRES(agent_thread);
  void AnswerFailed(std::uint32_t context, std::int32_t result, const std::string& why)
      CUSPAN_REQUIRES(agent_thread);
  void AnswerClosed(std::uint32_t context) CUSPAN_REQUIRES(agent_thread);
  void Lose(std::uint32_t context, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void Report(const Device& device) CUSPAN_REQUIRES(agent_thread);
  const DeviceDescription& Description(const Device& device) const CUSPAN_REQUIRES(agent_thread) {
    return context_.run.devices[visible_[device.number]];
  }
  // Rank of the agent with the proxy.
  std::uint32_t RankOf(const Device& device) const CUSPAN_REQUIRES(agent_thread) {
    return Description(device).agent;
  }
  // True if another agent serves it.
  bool IsRelayed(const DeviceDescription& description) const CUSPAN_REQUIRES(agent_thread) {
    return context_.relay != nullptr && description.agent != context_.rank;
  }
  std::string Describe(const Device& device) const CUSPAN_REQUIRES(agent_thread);
  template <typename T>
  void Answer(const T& message, std::span<const int> fds = {}) CUSPAN_REQUIRES(agent_thread);

  NodeContext& context_;
  ControlSocket socket_;
  const std::uint32_t id_;
  DeviceReports& reports_;
  bool rests_ = false;  // Reading is paused until a timer fires.
  std::string program_;
  int niceness_ = 0;                         // The process's; applied to its proxies.
  bool observer_ = false;                    // See ClientHello.
  std::vector<std::uint32_t> visible_;       // Their numbers in the run.
  std::optional<Bell> bell_;                 // The client's bell.
  std::map<std::uint32_t, Device> devices_;  // Key: context number.
  // Number of joins of two contexts, lower number first, since either was last opened.
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> joins_;
  bool ended_ = false;
};

}  // namespace cuspan
