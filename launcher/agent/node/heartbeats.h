// Notices agents that can not be reached any more: their host, or the network to it, is down, or
// they do not run. MPI notices none of this for minutes.
//
// The head agent asks each other one for a sign of life, several times in the time for which an
// agent may be silent; they answer. Whatever comes from an agent is one. The others watch the home
// agent, as soon as they were asked for the first time.
#pragma once

#include <chrono>
#include <functional>

#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/base/silence_watch.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// One thread; lives as long as the poller is waited on.
class Heartbeats {
 public:
  using Lost = std::function<void(std::uint32_t rank)>;
  // An agent that was silent for `limit` is `lost`, once.
  Heartbeats(Poller& poller, Relay& relay, std::chrono::seconds limit, Lost lost);
  ~Heartbeats();

  std::chrono::seconds limit() const CUSPAN_REQUIRES(agent_thread) { return limit_; }
  // The head agent's part: all agents below the rank `agents`.
  void Ask(std::uint32_t agents) CUSPAN_REQUIRES(agent_thread);
  // The others' part. May be called again.
  void WatchHome() CUSPAN_REQUIRES(agent_thread);

 private:
  void SendQuestions() CUSPAN_REQUIRES(agent_thread);
  void StartTicks() CUSPAN_REQUIRES(agent_thread);
  void Tick() CUSPAN_REQUIRES(agent_thread);

  Poller& poller_;
  Relay& relay_;
  const std::chrono::seconds limit_;
  const Lost lost_;
  SilenceWatch watch_;
  std::uint32_t asked_agents_ = 0;  // Agents that are asked; 0: this one only watches.
  Poller::TimerId timer_ = 0;
};

}  // namespace cuspan
