#include "launcher/agent/base/agent_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "launcher/host/install_paths.h"

namespace cuspan {

Status BecomeAgentProgram(std::string_view kind, std::string_view advice, char** arguments) {
  CUSPAN_ASSIGN_OR_RETURN(const std::filesystem::path self, OwnProgram());
  const std::string other = Format("{}-{}", self.string(), kind);
  ::execv(other.c_str(), arguments);
  if (errno == ENOENT) return Status::Unsupported("{} is missing: {}", other, advice);
  return Status::Unavailable("starting {}: {}", other, std::strerror(errno));
}

}  // namespace cuspan
