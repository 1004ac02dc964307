// Stubs of the agent without UCX. UCX's libraries change a process's signal handling and are
// missing on some hosts: cuspan-agent-ucx is a program beside it.
#include "launcher/agent/base/agent_program.h"
#include "launcher/agent/ucx/ucx_start.h"

namespace cuspan {

Status BecomeUcxAgent(char** arguments) {
  return BecomeAgentProgram(
      "ucx",
      "cuspan was built without UCX; install UCX's development files (libucx-dev) and build again, "
      "or use --relay mpi",
      arguments);
}

Result<UcxRun> HoldUcxRun(const AgentOptions&, const InstallPaths&, const Environment&,
                          const RunKey&) {
  return Status::Internal("this agent has no UCX");
}

Result<UcxRun> AttendUcxRun(const AgentOptions&, const Invitation&) {
  return Status::Internal("this agent has no UCX");
}

}  // namespace cuspan
