// One process's use of the run's devices, on the home agent: its connection, and
// for each device that it has opened a channel and a proxy, here or with another agent.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/peer_channels.h"
#include "launcher/agent/proxy_process.h"
#include "launcher/agent/relay.h"
#include "launcher/agent/trace_collector.h"
#include "launcher/run_key.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// What all sessions of a run share.
struct SessionContext {
  SessionContext(Poller& poller, ProxyHouse& proxies) : poller(poller), proxies(proxies) {}
  Poller& poller;
  ProxyHouse& proxies;
  Relay* relay = nullptr;  // None in a run of one agent.
  PeerChannels* peer_channels = nullptr;
  TraceCollector* trace = nullptr;  // None in a run that is not traced.
  Bell* bell = nullptr;             // The agent's own, for relayed channels.
  Key128 secret{};
  std::string host;  // This node.
  ChannelLayout layout;
  std::vector<DeviceDescription> devices;
  std::vector<AddressWindow> windows;  // By device.
  std::vector<DeviceReport> reports;   // Of what has ended.
  std::uint32_t last_session = 0;
};

// One thread. Failures of a session end that session and nothing else.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // Serves the connection until it ends. `context` outlives the session.
  static std::shared_ptr<Session> Start(SessionContext& context, ControlSocket socket);

  // 0 until the client has introduced itself.
  std::uint32_t id() const { return id_; }
  bool ended() const { return ended_; }
  // Ends proxies, keeps their statistics, hangs up. `reason` is logged; empty: the client has left.
  void End(const std::string& reason);

  // From the agent of a device of this session.
  void TakeRemoteOpened(const RemoteOpened& opened);
  void TakeRemoteLost(const RemoteLost& lost);
  // From the agent at the other end of a join.
  void TakeRemoteJoin(const RemoteJoin& join);

 private:
  enum class State { kOpening, kOpen, kClosing, kLost };
  struct Device {
    State state = State::kOpening;
    bool relayed = false;
    UniqueFd channel_fd;  // Until the client has it.
    std::shared_ptr<Channel> channel;
    std::shared_ptr<ProxyProcess> proxy;
  };

  Session(SessionContext& context, ControlSocket socket)
      : context_(context), socket_(std::move(socket)) {}
  void ReadSocket();
  Status TakeMessage(const Frame& frame);
  Status Introduce(const Frame& frame);
  Status Open(const OpenDevice& open);
  Status OpenHere(const OpenDevice& open, UniqueFd shared_file, Device& device);
  Status OpenAway(const OpenDevice& open, Device& device);
  Status Close(std::uint32_t number);
  Status Join(const JoinDevices& join);
  void TakeReady(std::uint32_t number, const ProxyReady& ready);
  void TakeGone(std::uint32_t number, const std::string& reason);
  // `opened` is a ProxyReady or a RemoteOpened.
  template <typename Opened>
  void AnswerOpened(std::uint32_t number, const Opened& opened, int bell);
  void AnswerFailed(std::uint32_t number, std::int32_t result, const std::string& why);
  void AnswerClosed(std::uint32_t number);
  void Lose(std::uint32_t number, const std::string& reason);
  void Report(std::uint32_t number, const Device& device);
  std::string Describe(std::uint32_t number) const;
  template <typename T>
  void Answer(const T& message, std::span<const int> fds = {});

  SessionContext& context_;
  ControlSocket socket_;
  std::uint32_t id_ = 0;
  std::string program_;
  std::optional<Bell> bell_;  // The client's.
  std::map<std::uint32_t, Device> devices_;
  bool ended_ = false;
};

}  // namespace cuspan
