// Command line of cuspan-agent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/run/gpu_request.h"
#include "launcher/run/plan.h"

namespace cuspan {

struct AgentOptions {
  bool alone = false;  // No other agents and no MPI.
  // Used without MPI. The head agent starts `others` by `remote_shell` as `remote_agent`. A started
  // agent has the number `rank` and reads an Invitation.
  std::vector<AgentPlan> others;
  std::vector<std::string> remote_shell;
  std::string remote_agent;
  std::uint32_t rank = 0;
  std::optional<std::uint32_t> serve;  // Maximum number of devices of this node.
  std::uint32_t place = 0;             // Number of hosts before the head agent's in device order.
  GpuRequest request;                  // The run's request; head agent only.
  std::string device;                  // "auto", "cuda" or "soft".
  SameNode same_node = SameNode::kAuto;
  std::string trace;                 // Timeline file of the run; empty: none.
  bool statistics = false;           // Only if started by mpirun directly.
  std::vector<std::string> command;  // The program; only if started by mpirun.
};

struct AgentCommandLine {
  std::optional<AgentOptions> options;
  std::string text;  // Text to print and exit: --help, --version.
};

Result<AgentCommandLine> ParseAgentCommandLine(int argc, const char* const* argv);

}  // namespace cuspan
