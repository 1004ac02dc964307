#include "launcher/batch/shell_exec.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/log.h"

namespace cuspan {

Environment LauncherEnvironment(const Environment& own,
                                const std::function<bool(std::string_view name)>& is_dropped) {
  Environment environment;
  for (const std::string& entry : own.entries()) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    if (!name.starts_with("CUSPAN_") && !is_dropped(name))
      environment.Set(name, entry.substr(std::min(name.size() + 1, entry.size())));
  }
  return environment;
}

int BecomeLauncher(const std::vector<std::string>& command, const Environment& environment,
                   const std::string& host) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = environment.Pointers();
  ::execvpe(arguments[0], arguments.data(), variables.data());
  LogError("host {} cannot be reached: starting {} failed: {}", host, command.front(),
           std::strerror(errno));
  return kNotReached;
}

}  // namespace cuspan
