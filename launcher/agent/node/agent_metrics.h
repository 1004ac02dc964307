// What the agents of a run tell of themselves and of the programs on their nodes, while it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/agent_node.h"

namespace cuspan {

// What the agent of `node` has seen until now, as the messages that answer `number`: those after
// the first hold further devices.
std::vector<MetricsPart> MeasureAgent(AgentNode& node, std::uint32_t number)
    CUSPAN_REQUIRES(agent_thread);

// The head agent's part: asks all others and hands on what they answer. One thread; lives as long
// as the node.
class MetricsQuery {
 public:
  struct Handlers {
    std::function<void(const MetricsPart&)> part;
    std::function<void(const MetricsEnd&)> end;
  };
  MetricsQuery(AgentNode& node, Handlers handlers) : node_(node), handlers_(std::move(handlers)) {}
  ~MetricsQuery() { Stop(); }
  MetricsQuery(const MetricsQuery&) = delete;
  MetricsQuery& operator=(const MetricsQuery&) = delete;

  // Begins with question `number`; one that is under way is not gone on with. An agent that has not
  // answered within a second is left out.
  void Ask(std::uint32_t number) CUSPAN_REQUIRES(agent_thread);
  void TakePart(std::uint32_t rank, MetricsPart part) CUSPAN_REQUIRES(agent_thread);
  void Stop() CUSPAN_REQUIRES(agent_thread);

 private:
  void EndIfComplete() CUSPAN_REQUIRES(agent_thread);

  AgentNode& node_;
  const Handlers handlers_;
  std::uint32_t number_ = 0;
  std::set<std::uint32_t> awaited_;
  std::chrono::steady_clock::time_point asked_{};
  Poller::TimerId timer_ = 0;  // 0: nothing is asked.
};

}  // namespace cuspan
