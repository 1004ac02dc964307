// Where the parts of this installation are, relative to the running executable:
// PREFIX/bin/cuspan, PREFIX/lib/cuspan/cuspan-proxy, …
#pragma once

#include <filesystem>
#include <string>

#include "common/status.h"

namespace cuspan {

// The file that this process executes. kUnavailable: there is no /proc, without which nothing
// works.
Result<std::filesystem::path> OwnProgram();

struct InstallPaths {
  std::string agent;        // bin/cuspan-agent
  std::string proxy;        // lib/cuspan/cuspan-proxy
  std::string client;       // lib/cuspan/libcuspan.so, to be preloaded
  std::string runtime;      // lib/cuspan/runtime, where the app finds libcudart and libcuda
  std::string slurm_shell;  // lib/cuspan/cuspan-slurm-shell, which starts agents in Slurm jobs
  std::string job_shell;    // lib/cuspan/cuspan-job-shell, the same in jobs of PBS and LSF

  static Result<InstallPaths> Find();
};

// kNotFound, naming what is missing, unless a program can be loaded with the client.
Status CheckClient(const InstallPaths& paths);

}  // namespace cuspan
