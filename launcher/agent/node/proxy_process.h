// Proxies of an agent: one process per session and context.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/proxy_child.h"
#include "launcher/host/environment.h"
#include "protocol/channel/bell.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// Parameters for starting a proxy; descriptors are copied.
struct ProxyRequest {
  std::string driver;
  std::uint32_t ordinal = 0;
  std::string name;  // Name in the log, with its GPU and session.
  std::string run;
  std::uint32_t session = 0;
  AddressWindow window;
  int channel = -1;
  int peer_bell = -1;                // Rung by the proxy for the other end of the channel.
  AddressWindow shared;              // The client's shared region; empty: none.
  int shared_file = -1;              // Memory of the region, for a proxy on the client's node.
  std::uint64_t file_bytes = 0;      // Part of the region in it, from the start.
  int trace = -1;                    // Trace memory, in a traced run.
  int share = -1;                    // Table of the runs sharing its GPU; -1: not shared.
  std::uint32_t share_location = 0;  // Slot of its run in the table.
  int lease = -1;                    // Lock on its GPU, held until it ends.
  int niceness = 0;                  // The program's; its GPU work yields with it.
  bool observe = false;              // Only reports on the device with `uuid`; no context.
  std::array<std::uint8_t, 16> uuid{};
};

class ProxyProcess;

// Starts proxies, and owns those alive. Threads: one.
class ProxyPool {
 public:
  // `environment`: of the proxies. `share`: sharing of the run's GPUs. If GPUs are shared, proxies
  // may end by themselves, to save their measurements. If they are shared in pairs, killing a proxy
  // would also end other runs' kernels (MPS, proxy/sharing/pair_server.h).
  ProxyPool(Poller& poller, std::string executable, Environment environment, const Key128& secret,
            const ShareTerms& share);
  ~ProxyPool();

  // Called at most once each: `ready` at the proxy's answer, `gone` at its end, ready or not.
  struct Handlers {
    std::function<void(const ProxyReady&)> ready;
    std::function<void(const std::string& reason)> gone;
  };
  Result<std::shared_ptr<ProxyProcess>> Start(const ProxyRequest& request, Handlers handlers)
      CUSPAN_REQUIRES(agent_thread);

  // Sets an environment variable for proxies started from now on.
  void Set(std::string_view name, std::string_view value) CUSPAN_REQUIRES(agent_thread) {
    environment_.Set(name, value);
  }
  // Sets it unless their environment already has it.
  void SetDefault(std::string_view name, std::string_view value) CUSPAN_REQUIRES(agent_thread) {
    if (!environment_.Get(name)) Set(name, value);
  }

  // Waits for proxies already ending, at most `limit`.
  void WaitEnds(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);
  // Kills all proxies and waits for their end, at most `limit`. If the run shares GPUs, they may
  // first end by themselves, within a second, in pairs two.
  void KillAll(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);

 private:
  friend class ProxyProcess;
  // Time for a proxy to end by itself.
  std::chrono::milliseconds OwnEndLimit() const CUSPAN_REQUIRES(agent_thread);

  Poller& poller_;
  const std::string executable_;
  Environment environment_;
  const Key128 secret_;
  const bool shares_, pairs_;
  std::set<std::shared_ptr<ProxyProcess>> living_;
};

// A proxy serving a device. Its pool keeps the object alive until the process has ended.
class ProxyProcess : public std::enable_shared_from_this<ProxyProcess> {
 public:
  // Wakes the proxy; ringing processes get copies.
  const Bell& bell() const CUSPAN_REQUIRES(agent_thread) { return bell_; }
  // Ends the process by closing its socket, soon by force. No handler is called any more except
  // `ended`, after the process has ended.
  void End(std::function<void()> ended) CUSPAN_REQUIRES(agent_thread);
  // Gives it a channel to another proxy. `fds`: copies of the channel and of the other's bell, or
  // none if `join` contains a problem.
  void Join(const ProxyJoin& join, std::span<const int> fds) CUSPAN_REQUIRES(agent_thread);

 private:
  friend class ProxyPool;
  ProxyProcess(ProxyPool& pool, ProxyChild child, Bell bell, ProxyPool::Handlers handlers);
  Status WatchProcess() CUSPAN_REQUIRES(agent_thread);
  void ReadSocket() CUSPAN_REQUIRES(agent_thread);
  void Reap() CUSPAN_REQUIRES(agent_thread);
  void Kill() CUSPAN_REQUIRES(agent_thread);
  // Waits until it has ended, and reaps it.
  void AwaitEnd(std::chrono::steady_clock::time_point deadline) CUSPAN_REQUIRES(agent_thread);
  // Kills the proxy after a failed send: it must not continue without the message.
  void HandleSendFailure(const Status& why) CUSPAN_REQUIRES(agent_thread);
  void HangUp() CUSPAN_REQUIRES(agent_thread);

  ProxyPool& pool_;
  const pid_t pid_;
  UniqueFd process_;
  ControlSocket socket_;
  bool hung_up_ = false;
  Bell bell_;
  ProxyPool::Handlers handlers_;
  std::function<void()> ended_;
  std::string end_reason_;  // Reason for its end, if set by the agent.
  bool ready_ = false;
  Poller::TimerId timer_ = 0;
};

}  // namespace cuspan
