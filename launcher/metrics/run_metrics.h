// `cuspan run --metrics`: what a run does, while it goes on.
#pragma once

#include <memory>

#include "common/status.h"
#include "launcher/metrics/metrics_target.h"
#include "launcher/starter/agent_cluster.h"

namespace cuspan {

// What is known of a run before it has devices.
struct RunIdentity {
  std::string run;  // Its id.
  std::string program;
  std::uint64_t started_ns = 0;  // Since 1970.
};

// One thread, which polls the descriptors.
class RunMetrics {
 public:
  // Opens the target. kInvalid says why it can not be, and kNotFound that this cuspan was built
  // without what it needs.
  static Result<std::unique_ptr<RunMetrics>> Open(const MetricsTarget& target,
                                                  const RunIdentity& run);
  virtual ~RunMetrics() = default;

  // The run has begun, with these devices.
  virtual void Begin(const RunReady& ready) = 0;
  // Readable when somebody wants to know how the run is.
  virtual int request_fd() const = 0;
  // After that: asks the agents.
  virtual void ConsumeRequest(AgentCluster& agents) = 0;
  // To poll for what the agents answer; -1 while they are not asked.
  virtual int answer_fd(const AgentCluster& agents) const = 0;
  // After that: publishes what they tell.
  virtual void TakeAnswer(AgentCluster& agents) = 0;
  // They are gone: what they told last stays.
  virtual void LoseAgents() = 0;
  // The run has ended: where what is published lasts, it is made as it is now.
  virtual void End(AgentCluster& agents) = 0;
};

}  // namespace cuspan
