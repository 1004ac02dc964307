// Paths of this installation's parts, relative to the running executable: PREFIX/bin/cuspan,
// PREFIX/lib/cuspan/cuspan-proxy, …
#pragma once

#include <filesystem>
#include <string>

#include "common/status.h"

namespace cuspan {

// The executable of this process. kUnavailable if /proc, required everywhere, is missing.
Result<std::filesystem::path> OwnProgram();

struct InstallPaths {
  std::string agent;        // bin/cuspan-agent
  std::string proxy;        // lib/cuspan/cuspan-proxy
  std::string client;       // lib/cuspan/libcuspan.so, to be preloaded
  std::string runtime;      // lib/cuspan/runtime: libcudart and libcuda for the program
  std::string slurm_shell;  // lib/cuspan/cuspan-slurm-shell: starts agents in Slurm jobs
  std::string cufile;       // lib/cuspan/cufile.json: settings of cuFile for the program
  std::string job_shell;    // lib/cuspan/cuspan-job-shell: the same in PBS and LSF jobs

  static Result<InstallPaths> Find();
};

// Checks the files needed to load a program with the client. kNotFound names a missing one.
Status CheckClient(const InstallPaths& paths);

}  // namespace cuspan
