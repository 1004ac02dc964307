// Trace of a run, collected by its agents: the buffers of this node's processes and, at the head
// agent, the records sent by the others at the end. Their times are converted to the head node's
// clock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/trace.h"
#include "launcher/agent/base/roles.h"
#include "launcher/run/trace_file.h"
#include "ops.gen.h"

namespace cuspan {

// Offset of another node's clock. Of many questions, the fastest answer counts, once at the start
// of a run and once at its end. In between, drift is assumed to be linear.
class ClockOffset {
 public:
  // Adds a question sent at `sent`, answered there at `answered` and returned at `received`.
  void Collect(std::uint64_t sent, std::uint64_t answered, std::uint64_t received)
      CUSPAN_REQUIRES(agent_thread);
  // Later answers belong to the end of the run.
  void StartSecond() CUSPAN_REQUIRES(agent_thread) { second_started_ = true; }
  // Number of answers since the start, or since StartSecond.
  int answers() const CUSPAN_REQUIRES(agent_thread) { return answers_[second_started_ ? 1 : 0]; }

  // Converts the other node's time to this node's clock.
  std::uint64_t ToOurs(std::uint64_t theirs) const CUSPAN_REQUIRES(agent_thread);
  ClockReport Report() const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Best {
    std::uint64_t round_trip = ~std::uint64_t{0};
    std::uint64_t theirs = 0;
    std::int64_t offset = 0;  // Their clock minus ours.
  };
  // Measurements of the start and of the end, or one of them twice.
  std::pair<const Best*, const Best*> Used() const CUSPAN_REQUIRES(agent_thread);

  Best best_[2];
  int answers_[2] = {0, 0};
  bool second_started_ = false;
};

// Threads: one.
class TraceCollector {
 public:
  // Also starts this process's own trace, if possible.
  explicit TraceCollector(const std::string& host) CUSPAN_REQUIRES(agent_thread);

  // Memory for the records of a process of this node; invalid on failure.
  UniqueFd AddProcess(std::string role, std::uint32_t session, std::uint32_t device, bool client)
      CUSPAN_REQUIRES(agent_thread);

  // --- Worker agents: this node's records, in pieces for the head agent.
  void ForEachPart(std::uint32_t rank, const std::function<void(const TracePart&)>& use) const
      CUSPAN_REQUIRES(agent_thread);

  // --- Head agent.
  // Adds a piece from another agent.
  void Collect(const TracePart& part) CUSPAN_REQUIRES(agent_thread);
  ClockOffset& clock(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread) {
    return clocks_[rank].offset;
  }
  // Writes all records of the run, in this node's time.
  Status Write(const std::string& path) const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Local {
    TracedProcess process;
    std::unique_ptr<TraceBuffer> buffer;
  };
  struct Clock {
    std::string host;
    ClockOffset offset;
  };
  const std::string host_;
  std::vector<Local> local_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, TracedProcess> others_;  // Key: rank, number.
  std::map<std::uint32_t, Clock> clocks_;                                    // Key: rank.
};

}  // namespace cuspan
