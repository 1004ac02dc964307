#include "launcher/agent/agent_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace cuspan {

Status BecomeAgentProgram(std::string_view kind, std::string_view advice, char** arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status::Internal("reading /proc/self/exe: {}", error.message());
  const std::string other = Format("{}-{}", self.string(), kind);
  ::execv(other.c_str(), arguments);
  if (errno == ENOENT) return Status::Unsupported("{} is missing: {}", other, advice);
  return Status::Unavailable("starting {}: {}", other, std::strerror(errno));
}

}  // namespace cuspan
