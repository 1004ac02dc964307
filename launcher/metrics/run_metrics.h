// `cuspan run --metrics`: metrics of a run while it lasts.
#pragma once

#include <memory>

#include "common/status.h"
#include "launcher/metrics/metrics_target.h"
#include "launcher/starter/agent_cluster.h"

namespace cuspan {

// Properties of a run known before it has devices.
struct RunIdentity {
  std::string run;  // Id of the run.
  std::string program;
  std::uint64_t started_ns = 0;  // Nanoseconds since 1970.
};

// Threads: one, polling the descriptors.
class RunMetrics {
 public:
  // Opens the target. kInvalid if this is impossible, kNotFound if this cuspan was built without
  // prometheus-cpp.
  static Result<std::unique_ptr<RunMetrics>> Open(const MetricsTarget& target,
                                                  const RunIdentity& run);
  virtual ~RunMetrics() = default;

  // The run has begun, with these devices.
  virtual void Begin(const RunReady& ready) = 0;
  // Readable when a reader requests current metrics.
  virtual int request_fd() const = 0;
  // Call when request_fd() is readable: queries the agents.
  virtual void ConsumeRequest(AgentCluster& agents) = 0;
  // Descriptor to poll for the agents' answer; -1 if no query is pending.
  virtual int answer_fd(const AgentCluster& agents) const = 0;
  // Call when answer_fd() is readable: publishes the answer.
  virtual void ReceiveAnswer(AgentCluster& agents) = 0;
  // The agents have ended; their last values remain.
  virtual void LoseAgents() = 0;
  // The run has ended. If publications remain (lasts()), queries the agents once more and
  // publishes.
  virtual void End(AgentCluster& agents) = 0;
};

}  // namespace cuspan
