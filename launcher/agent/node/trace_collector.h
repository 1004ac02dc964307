// The trace of a run as its agents gather it: the buffers of this node's
// processes, and, on the home node, what the other agents send at the end, with
// their clocks brought to the home node's.
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

// How another node's clock stands to this one's: of many questions the one whose answer came
// fastest, once at the start of a run and once at its end; between them the clocks drift evenly.
class ClockOffset {
 public:
  // A question that left at `sent`, was answered there at `answered`, and was back at `received`.
  void Take(std::uint64_t sent, std::uint64_t answered, std::uint64_t received)
      CUSPAN_REQUIRES(agent_thread);
  // What comes now belongs to the end of the run.
  void StartSecond() CUSPAN_REQUIRES(agent_thread) { second_started_ = true; }
  // Questions answered since the start, or since StartSecond.
  int answers() const CUSPAN_REQUIRES(agent_thread) { return answers_[second_started_ ? 1 : 0]; }

  // A time of theirs as this node's clock had it.
  std::uint64_t ToOurs(std::uint64_t theirs) const CUSPAN_REQUIRES(agent_thread);
  ClockReport Report() const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Best {
    std::uint64_t round_trip = ~std::uint64_t{0};
    std::uint64_t theirs = 0;
    std::int64_t offset = 0;  // Theirs less ours.
  };
  // Of the start and of the end, or one of them twice.
  std::pair<const Best*, const Best*> Used() const CUSPAN_REQUIRES(agent_thread);

  Best best_[2];
  int answers_[2] = {0, 0};
  bool second_started_ = false;
};

// One thread.
class TraceCollector {
 public:
  // Also starts this process's own trace, if it can.
  explicit TraceCollector(const std::string& host) CUSPAN_REQUIRES(agent_thread);

  // The memory for a process of this node to record into; invalid when there is none.
  UniqueFd AddProcess(std::string role, std::uint32_t session, std::uint32_t device, bool client)
      CUSPAN_REQUIRES(agent_thread);

  // --- Away: all that this node's processes have recorded, in pieces for the head agent.
  void ForEachPart(std::uint32_t rank, const std::function<void(const TracePart&)>& use) const
      CUSPAN_REQUIRES(agent_thread);

  // --- Home.
  // A piece from another agent.
  void Take(const TracePart& part) CUSPAN_REQUIRES(agent_thread);
  ClockOffset& clock(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread) {
    return clocks_[rank].offset;
  }
  // All of the run, by this node's clock.
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
  std::map<std::pair<std::uint32_t, std::uint32_t>, TracedProcess> others_;  // By rank and number.
  std::map<std::uint32_t, Clock> clocks_;                                    // By rank.
};

}  // namespace cuspan
