#include "launcher/metrics/run_metrics.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "common/log.h"
#include "launcher/metrics/metrics_outlet.h"
#include "launcher/metrics/run_families.h"

namespace cuspan {
namespace {

// Limit for the last answer of the agents; they take up to one second.
constexpr std::chrono::milliseconds kLastLimit{1'500};

class OpenRunMetrics final : public RunMetrics {
 public:
  OpenRunMetrics(std::unique_ptr<MetricsOutlet> outlet, const RunIdentity& run)
      : outlet_(std::move(outlet)) {
    facts_.run = run.run;
    facts_.version = CUSPAN_VERSION;
    facts_.program = run.program;
    facts_.started_ns = run.started_ns;
    Publish();
  }

  void Begin(const RunReady& ready) override {
    facts_.devices = ready.devices;
    facts_.relay = ready.relay;
    // The agents' hosts are known before their first answer.
    for (const DeviceDescription& device : ready.devices) {
      AgentState& agent = agents_[device.agent];
      agent.metrics.rank = device.agent;
      agent.metrics.host = device.host;
    }
    outlet_->SetLive(true);
  }

  int request_fd() const override { return outlet_->fd(); }

  void ConsumeRequest(AgentCluster& agents) override {
    outlet_->ConsumeRequest();
    if (asked_) return;  // The pending answer is used for this request too.
    if (lost_) return Publish();
    asked_ = agents.AskMetrics().ok();
    if (!asked_) LoseAgents();
  }

  int answer_fd(const AgentCluster& agents) const override {
    return asked_ ? agents.head_fd() : -1;
  }

  void ReceiveAnswer(AgentCluster& agents) override {
    Result<std::optional<std::vector<AgentMetrics>>> answer = agents.ReceiveMetrics();
    if (!answer.ok()) return LoseAgents();
    if (!answer->has_value()) return;
    asked_ = false;
    for (auto& [rank, agent] : agents_) agent.up = false;
    for (AgentMetrics& metrics : **answer) {
      AgentState& agent = agents_[metrics.rank];
      agent.up = true;
      agent.metrics = std::move(metrics);
    }
    Publish();
  }

  void End(AgentCluster& agents) override {
    // Requests are no longer handled.
    outlet_->SetLive(false);
    if (!outlet_->lasts()) return;
    // A pending answer may be older than the end of the run.
    asked_ = false;
    const auto deadline = std::chrono::steady_clock::now() + kLastLimit;
    ConsumeRequest(agents);
    while (asked_) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd head{agents.head_fd(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&head, 1, static_cast<int>(left.count())) <= 0) return;
      ReceiveAnswer(agents);
    }
  }

  void LoseAgents() override {
    lost_ = true;
    asked_ = false;
    for (auto& [rank, agent] : agents_) agent.up = false;
    Publish();
  }

 private:
  void Publish() {
    std::vector<AgentState> states;
    for (const auto& [rank, agent] : agents_) states.push_back(agent);
    outlet_->Publish(RunFamilies(facts_, states));
  }

  const std::unique_ptr<MetricsOutlet> outlet_;
  RunFacts facts_;
  std::map<std::uint32_t, AgentState> agents_;  // Key: rank. Includes agents no longer running.
  bool asked_ = false;
  bool lost_ = false;  // No agent can answer any more.
};

}  // namespace

Result<std::unique_ptr<RunMetrics>> RunMetrics::Open(const MetricsTarget& target,
                                                     const RunIdentity& run) {
  const MetricsTarget own = ForRun(target, run.run);
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<MetricsOutlet> outlet, MetricsOutlet::Open(own));
  LogInfo("metrics: {}", TargetText(own));
  return std::unique_ptr<RunMetrics>(std::make_unique<OpenRunMetrics>(std::move(outlet), run));
}

}  // namespace cuspan
