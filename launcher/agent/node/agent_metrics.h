// Metrics of a running run's agents and of the programs on their nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/agent_node.h"

namespace cuspan {

// Returns the current counts of the agent of `node` as answers to question `number`. Messages after
// the first contain further devices.
std::vector<MetricsPart> MeasureAgent(AgentNode& node, std::uint32_t number)
    CUSPAN_REQUIRES(agent_thread);

// The head agent's part: asks all others and passes on their answers. Threads: one. It lives as
// long as the node.
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

  // Starts question `number` and aborts an unfinished one. Agents without an answer after a second
  // are omitted.
  void Ask(std::uint32_t number) CUSPAN_REQUIRES(agent_thread);
  void ReceivePart(std::uint32_t rank, MetricsPart part) CUSPAN_REQUIRES(agent_thread);
  void Stop() CUSPAN_REQUIRES(agent_thread);

 private:
  void EndIfComplete() CUSPAN_REQUIRES(agent_thread);

  AgentNode& node_;
  const Handlers handlers_;
  std::uint32_t number_ = 0;
  std::set<std::uint32_t> awaited_;
  std::chrono::steady_clock::time_point asked_{};
  Poller::TimerId timer_ = 0;  // 0: no question is open.
};

}  // namespace cuspan
