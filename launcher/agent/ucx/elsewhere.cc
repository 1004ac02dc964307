// Of the agent that is not linked with UCX, whose libraries change how a process takes signals, and
// are not on every host: the one that is stands beside it.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "launcher/agent/ucx/ucx_start.h"

namespace cuspan {

Status BecomeUcxAgent(char** arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status::Internal("reading /proc/self/exe: {}", error.message());
  const std::string other = self.string() + "-ucx";
  ::execv(other.c_str(), arguments);
  if (errno == ENOENT)
    return Status::Unsupported(
        "{} is missing: cuspan was built without UCX; install UCX's development files (libucx-dev) "
        "and build again, or use --relay mpi",
        other);
  return Status::Unavailable("starting {}: {}", other, std::strerror(errno));
}

Result<UcxRun> HoldUcxRun(const AgentOptions&, const InstallPaths&, const Environment&,
                          const RunKey&) {
  return Status::Internal("this agent has no UCX");
}

Result<UcxRun> AttendUcxRun(const AgentOptions&, const Invitation&) {
  return Status::Internal("this agent has no UCX");
}

}  // namespace cuspan
