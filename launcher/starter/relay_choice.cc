#include "launcher/starter/relay_choice.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "common/batch_system.h"
#include "common/format.h"

namespace cuspan {
RelayChoice ChooseRelay(const ClusterOptions& options, const Environment& environment,
                        const std::function<bool()>& has_ucx) {
  if (!options.mpirun_arguments.empty())
    return {RelayKind::kMpi, "mpirun has additional arguments"};
  if (const BatchSystem system = BatchSystemAround(environment);
      system != BatchSystem::kNone && options.remote_shell.empty() &&
      !environment.Get("OMPI_MCA_plm_rsh_agent"))
    return {RelayKind::kMpi, Format("{} is set, so mpirun starts agents as the batch system does, "
                                    "and no remote shell is named",
                                    JobVariable(system))};
  if (!has_ucx()) return {RelayKind::kMpi, "cuspan-agent-ucx does not start here"};
  return {RelayKind::kUcx, "it is installed"};
}

bool HasUcx(const InstallPaths& paths) {
  const std::string agent = paths.agent + "-ucx";
  const char* const arguments[] = {agent.c_str(), "--version", nullptr};
  posix_spawn_file_actions_t nowhere;
  posix_spawn_file_actions_init(&nowhere);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&nowhere, fd, "/dev/null", O_RDWR, 0);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, agent.c_str(), &nowhere, nullptr,
                                  const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&nowhere);
  if (error != 0) return false;
  int status = 0;
  // Our own program ends by itself. No signal is blocked yet: Ctrl-C ends both.
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace cuspan
