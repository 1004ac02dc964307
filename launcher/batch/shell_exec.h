// What the remote shells of batch systems' jobs, cuspan-slurm-shell and cuspan-job-shell, have in
// common.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host/environment.h"

namespace cuspan {

// The exit status where a node is not reached, as of ssh.
inline constexpr int kNotReached = 255;

// What a launcher is started with: `own` without what `is_dropped` names and, as through ssh,
// without anything of the run's, which has secrets.
Environment LauncherEnvironment(const Environment& own,
                                const std::function<bool(std::string_view name)>& is_dropped);

// Becomes the command, which starts something on `host`. Returns only when that fails, after a line
// that says so: kNotReached.
int BecomeLauncher(const std::vector<std::string>& command, const Environment& environment,
                   const std::string& host);

}  // namespace cuspan
