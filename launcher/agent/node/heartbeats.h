// Detects unreachable agents: their host or its network is down, or their process is stopped. MPI
// detects none of this for minutes.
//
// The head agent sends a heartbeat to each other agent, several times within the silence limit, and
// they answer. Any message of an agent counts as a sign of life. The others watch the head agent
// from its first heartbeat on.
#pragma once

#include <chrono>
#include <functional>

#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/base/silence_watch.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// Threads: one. It lives as long as the poller is in use.
class Heartbeats {
 public:
  using Lost = std::function<void(std::uint32_t rank)>;
  // Calls `lost` once for an agent silent for `limit`.
  Heartbeats(Poller& poller, Relay& relay, std::chrono::seconds limit, Lost lost);
  ~Heartbeats();

  std::chrono::seconds limit() const CUSPAN_REQUIRES(agent_thread) { return limit_; }
  // The head agent's part: watches all agents with ranks below `agents`.
  void Ask(std::uint32_t agents) CUSPAN_REQUIRES(agent_thread);
  // The others' part; repeated calls are allowed.
  void WatchHead() CUSPAN_REQUIRES(agent_thread);

 private:
  void SendQuestions() CUSPAN_REQUIRES(agent_thread);
  void StartTicks() CUSPAN_REQUIRES(agent_thread);
  void Tick() CUSPAN_REQUIRES(agent_thread);

  Poller& poller_;
  Relay& relay_;
  const std::chrono::seconds limit_;
  const Lost lost_;
  SilenceWatch watch_;
  std::uint32_t asked_agents_ = 0;  // Number of agents; 0: only watches the head agent.
  Poller::TimerId timer_ = 0;
};

}  // namespace cuspan
