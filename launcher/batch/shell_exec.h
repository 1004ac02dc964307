// Functions common to the remote shells for batch jobs, cuspan-slurm-shell and cuspan-job-shell.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host/environment.h"

namespace cuspan {

// Exit status for an unreachable node, as from ssh.
inline constexpr int kNotReached = 255;

// Environment of a launcher: `own` without the names selected by `is_dropped`. Like ssh, it omits
// all variables of the run, which include secrets.
Environment LauncherEnvironment(const Environment& own,
                                const std::function<bool(std::string_view name)>& is_dropped);

// Replaces this process by the command, a launcher for `host`. If this fails, logs an error and
// returns kNotReached.
int BecomeLauncher(const std::vector<std::string>& command, const Environment& environment,
                   const std::string& host);

}  // namespace cuspan
