#include "launcher/host/install_paths.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace cuspan {

Result<std::filesystem::path> OwnProgram() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return Status::Unavailable(
        "/proc/self/exe: {}: the proc file system is needed: mount it (mount -t proc proc /proc)",
        error.message());
  return self;
}

Result<InstallPaths> InstallPaths::Find() {
  CUSPAN_ASSIGN_OR_RETURN(const std::filesystem::path self, OwnProgram());
  const std::filesystem::path bin = self.parent_path();
  const std::filesystem::path library = bin.parent_path() / "lib" / "cuspan";
  InstallPaths paths;
  paths.agent = bin / "cuspan-agent";
  paths.proxy = library / "cuspan-proxy";
  paths.slurm_shell = library / "cuspan-slurm-shell";
  paths.cufile = library / "cufile.json";
  paths.job_shell = library / "cuspan-job-shell";
  paths.client = library / "libcuspan.so";
  paths.runtime = library / "runtime";
  return paths;
}

Status CheckClient(const InstallPaths& paths) {
  if (::access(paths.client.c_str(), R_OK) != 0)
    return Status::NotFound("{} is missing: build or install cuspan again", paths.client);
  // Otherwise the loader would find the libraries of a driver installed on this node.
  for (const char* name : {"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ml.so"}) {
    const std::filesystem::path library = std::filesystem::path(paths.runtime) / name;
    if (::access(library.c_str(), R_OK) != 0)
      return Status::NotFound("{} is missing: build or install cuspan again", library.string());
  }
  // The loader splits LD_PRELOAD at both characters; quoting is not possible.
  if (paths.client.find_first_of(" :") != std::string::npos)
    return Status::Invalid(
        "the dynamic loader cannot preload '{}': install cuspan in a directory whose path has no "
        "spaces or colons",
        paths.client);
  return Status::Ok();
}

}  // namespace cuspan
