// One process's use of the run's devices, with the agent of its node: its connection, and for each
// context of a device that it has opened a channel and a proxy, here or with another agent. Devices
// are numbered as the process sees them (visible_devices.h), and so are their primary contexts.
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

// One thread. Failures of a session end that session and nothing else.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // Serves the connection until it ends, under the number `id`, and adds to `reports` what the
  // process did with each device. Both outlive the session. A process that is no part of the run,
  // or for which there is no room, is told so: a failure.
  static Result<std::shared_ptr<ClientSession>> Start(NodeContext& context,
                                                      Reception::Arrival arrival, std::uint32_t id,
                                                      DeviceReports& reports)
      CUSPAN_REQUIRES(agent_thread);

  std::uint32_t id() const CUSPAN_REQUIRES(agent_thread) { return id_; }
  bool ended() const CUSPAN_REQUIRES(agent_thread) { return ended_; }
  // Ends proxies, keeps their statistics, hangs up. `reason` is logged; empty: the client has left.
  void End(const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // Adds what the process did until now with each device that it has open.
  void Measure(std::vector<DeviceMetrics>& devices) const CUSPAN_REQUIRES(agent_thread);

  // From the agent of a device of this session.
  void TakeRemoteOpened(const RemoteOpened& opened) CUSPAN_REQUIRES(agent_thread);
  void TakeRemoteLost(const RemoteLost& lost) CUSPAN_REQUIRES(agent_thread);
  // The agent of some of its devices can not be reached any more.
  void LoseAgent(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // From the agent at the other end of a join.
  void TakeRemoteJoin(const RemoteJoin& join) CUSPAN_REQUIRES(agent_thread);

 private:
  enum class State { kOpening, kOpen, kClosing, kLost };
  // A context that is open.
  struct Device {
    std::uint32_t number = 0;  // Of the device.
    AddressWindow window;
    State state = State::kOpening;
    bool relayed = false;
    UniqueFd channel_fd;  // Until the client has it.
    std::shared_ptr<Channel> channel;
    std::shared_ptr<ProxyProcess> proxy;
  };

  ClientSession(NodeContext& context, ControlSocket socket, std::uint32_t id,
                DeviceReports& reports)
      : context_(context), socket_(std::move(socket)), id_(id), reports_(reports) {}
  // Of the socket: room for what is kept, or something to read.
  void HandleSocket() CUSPAN_REQUIRES(agent_thread);
  void ReadSocket() CUSPAN_REQUIRES(agent_thread);
  void ReadLater(std::chrono::milliseconds delay) CUSPAN_REQUIRES(agent_thread);
  void UpdateInterest() CUSPAN_REQUIRES(agent_thread);
  Status TakeMessage(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  Status Introduce(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  Status Open(const OpenDevice& open) CUSPAN_REQUIRES(agent_thread);
  Status CheckOpen(const OpenDevice& open) const CUSPAN_REQUIRES(agent_thread);
  // Of a context that is to be opened.
  Result<AddressWindow> WindowFor(const OpenDevice& open) const CUSPAN_REQUIRES(agent_thread);
  Status OpenHere(const OpenDevice& open, UniqueFd shared_file, Device& device)
      CUSPAN_REQUIRES(agent_thread);
  Status OpenAway(const OpenDevice& open, Device& device) CUSPAN_REQUIRES(agent_thread);
  Status Close(std::uint32_t context) CUSPAN_REQUIRES(agent_thread);
  Status Join(const JoinDevices& join) CUSPAN_REQUIRES(agent_thread);
  void TakeReady(std::uint32_t context, const ProxyReady& ready) CUSPAN_REQUIRES(agent_thread);
  void TakeGone(std::uint32_t context, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // `opened` is a ProxyReady or a RemoteOpened.
  template <typename Opened>
  void AnswerOpened(std::uint32_t context, const Opened& opened, int bell)
      CUSPAN_REQUIRES(agent_thread);
  void AnswerFailed(std::uint32_t context, std::int32_t result, const std::string& why)
      CUSPAN_REQUIRES(agent_thread);
  void AnswerClosed(std::uint32_t context) CUSPAN_REQUIRES(agent_thread);
  void Lose(std::uint32_t context, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void Report(const Device& device) CUSPAN_REQUIRES(agent_thread);
  const DeviceDescription& Description(const Device& device) const CUSPAN_REQUIRES(agent_thread) {
    return context_.devices[visible_[device.number]];
  }
  // Of the agent that has the proxy.
  std::uint32_t RankOf(const Device& device) const CUSPAN_REQUIRES(agent_thread) {
    return Description(device).agent;
  }
  // Whether another agent serves it.
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
  bool rests_ = false;  // Nothing is read until a timer rings.
  std::string program_;
  int niceness_ = 0;                         // Of the process: its proxies have it, too.
  bool observer_ = false;                    // As in ClientHello.
  std::vector<std::uint32_t> visible_;       // Numbers in the run.
  std::optional<Bell> bell_;                 // The client's.
  std::map<std::uint32_t, Device> devices_;  // By the numbers of contexts.
  // How often two contexts were joined, the lower number first, since one of them was opened.
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> joins_;
  bool ended_ = false;
};

}  // namespace cuspan
