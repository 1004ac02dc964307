// The proxies that serve an agent's sessions: one process per session and device.
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

// How a proxy is started; the descriptors are copied.
struct ProxyRequest {
  std::string driver;
  std::uint32_t ordinal = 0;
  std::string name;  // What it is called in the log, and what it works for there.
  std::string run;
  std::uint32_t session = 0;
  AddressWindow window;
  int channel = -1;
  int peer_bell = -1;                // Rung by the proxy for the other end of the channel.
  AddressWindow shared;              // The client's shared region; none when it has no bytes.
  int shared_file = -1;              // Its memory, for a proxy on the client's node,
  std::uint64_t file_bytes = 0;      // and how much of the region, from its start, that is.
  int trace = -1;                    // The memory for its trace, in a traced run.
  int share = -1;                    // The table of the runs that share its GPU, if there are such,
  std::uint32_t share_location = 0;  // and the place of its run there.
  int lease = -1;                    // The lock of its GPU, which it keeps as long as it lives.
  int niceness = 0;                  // Of the program: work for one that gives way gives way, too.
  bool observe = false;  // It only tells about the device with `uuid`, without a context.
  std::array<std::uint8_t, 16> uuid{};
};

class ProxyProcess;

// Starts proxies that serve, and knows all that live. One thread.
class ProxyPool {
 public:
  // `environment` is what proxies get. `share`: how the run shares its GPUs. Its proxies keep what
  // they have learnt when they end; in pairs, MPS ends other runs' kernels with those of one that
  // is killed (proxy/sharing/pair_server.h).
  ProxyPool(Poller& poller, std::string executable, Environment environment, const Key128& secret,
            const ShareTerms& share);
  ~ProxyPool();

  // Called at most once each: when the proxy answered; when it is gone, ready or not.
  struct Handlers {
    std::function<void(const ProxyReady&)> ready;
    std::function<void(const std::string& reason)> gone;
  };
  Result<std::shared_ptr<ProxyProcess>> Start(const ProxyRequest& request, Handlers handlers)
      CUSPAN_REQUIRES(agent_thread);

  // A variable of the proxies that are started from now on,
  void Set(std::string_view name, std::string_view value) CUSPAN_REQUIRES(agent_thread) {
    environment_.Set(name, value);
  }
  // unless their environment has it.
  void SetDefault(std::string_view name, std::string_view value) CUSPAN_REQUIRES(agent_thread) {
    if (!environment_.Get(name)) Set(name, value);
  }

  // Waits until those that were told to end are gone, at most `limit`.
  void WaitEnds(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);
  // Kills all that live and waits until they are gone, at most `limit`. Those that share their GPU
  // are told to end first, and have a second for it, in pairs two.
  void KillAll(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);

 private:
  friend class ProxyProcess;
  // For one to end by itself.
  std::chrono::milliseconds OwnEndLimit() const CUSPAN_REQUIRES(agent_thread);

  Poller& poller_;
  const std::string executable_;
  Environment environment_;
  const Key128 secret_;
  const bool shares_, pairs_;
  std::set<std::shared_ptr<ProxyProcess>> living_;
};

// A proxy that serves a device. Kept alive by its pool until the process is gone.
class ProxyProcess : public std::enable_shared_from_this<ProxyProcess> {
 public:
  // Wakes the proxy; to be copied for those who shall.
  const Bell& bell() const CUSPAN_REQUIRES(agent_thread) { return bell_; }
  // Ends the process: at first by closing its socket, soon by force. No handler is called any more,
  // except `ended`, when the process is gone.
  void End(std::function<void()> ended) CUSPAN_REQUIRES(agent_thread);
  // Gives it a channel to another proxy: with copies of the channel and the other's bell, or none
  // where `join` names a problem.
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
  // It must not go on without what it waits for.
  void CanNotBeTold(const Status& why) CUSPAN_REQUIRES(agent_thread);
  void HangUp() CUSPAN_REQUIRES(agent_thread);

  ProxyPool& pool_;
  const pid_t pid_;
  UniqueFd process_;
  ControlSocket socket_;
  bool hung_up_ = false;
  Bell bell_;
  ProxyPool::Handlers handlers_;
  std::function<void()> ended_;
  std::string last_words_;  // Why its socket was given up, if we did.
  bool ready_ = false;
  Poller::TimerId timer_ = 0;
};

}  // namespace cuspan
