// The command line of cuspan-agent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/run/gpu_request.h"
#include "launcher/run/plan.h"

namespace cuspan {

struct AgentOptions {
  bool alone = false;  // The run has no other agent and no MPI.
  // Of a run without MPI: what its head agent starts, and how; and which of those this is. They
  // read an Invitation.
  std::vector<AgentPlan> others;
  std::vector<std::string> remote_shell;
  std::string remote_agent;
  std::uint32_t rank = 0;
  std::optional<std::uint32_t> serve;  // How many devices of this node at most.
  std::uint32_t place = 0;             // Of the head agent's devices among the other agents'.
  GpuRequest request;                  // What the run wants; of the head agent.
  std::string device;                  // auto, cuda or soft.
  SameNode same_node = SameNode::kAuto;
  std::string trace;                 // The file for a timeline of the run; empty: none.
  bool statistics = false;           // Of the plain mpirun form, like the command.
  std::vector<std::string> command;  // An app of its own: of the plain mpirun form.
};

struct AgentCommandLine {
  std::optional<AgentOptions> options;
  std::string text;  // To print instead: of --help and --version.
};

Result<AgentCommandLine> ParseAgentCommandLine(int argc, const char* const* argv);

}  // namespace cuspan
