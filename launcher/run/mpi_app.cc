#include "launcher/run/mpi_app.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "launcher/text/words.h"

namespace cuspan {

bool ChoosesHosts(const std::vector<std::string>& mpirun) {
  constexpr std::string_view kWords[] = {
      "ras",         "plm",        "--host",    "-host",     "-hosts",        "--hosts",
      "-H",          "--hostfile", "-hostfile", "-f",        "--machinefile", "-machinefile",
      "--rankfile",  "-rankfile",  "-rf",       "-launcher", "--launcher",    "-bootstrap",
      "--bootstrap", "-rmk",       "--rmk"};
  return std::any_of(mpirun.begin(), mpirun.end(), [&kWords](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
  });
}

Result<MpiKind> FindMpiKind(const MpiProgram& app) {
  const std::string command = Format("{} --version 2>&1", QuoteForShell({app.mpirun.front()}));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(command.c_str(), "re"),
                                                               ::pclose);
  if (!output) return Status::Exhausted("{} could not be started", app.mpirun.front());
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), output.get()));
  for (const char* name : {"Open MPI", "OpenRTE", "PRRTE"})
    if (text.find(name) != std::string::npos) return MpiKind::kOpenMpi;
  for (const char* name : {"HYDRA", "Intel(R) MPI"})
    if (text.find(name) != std::string::npos) return MpiKind::kHydra;
  if (text.starts_with("slurm")) return MpiKind::kSrun;
  return Status::NotFound(
      "{} is not recognised as the mpirun of Open MPI, MPICH or Intel MPI, or as srun, so "
      "--app-hosts cannot be used: name another one with --app-mpirun, or start it yourself: "
      "cuspan run -- mpirun …",
      app.mpirun.front());
}

bool IsNamedSrun(const MpiProgram& app) {
  return std::filesystem::path(app.mpirun.front()).filename() == "srun";
}

std::vector<std::string> MpiProgramCommand(const MpiProgram& app, MpiKind kind,
                                           const std::vector<std::string>& names,
                                           const std::vector<std::string>& program) {
  std::vector<std::string> command = app.mpirun;
  command.insert(command.end(), {"-np", std::to_string(app.ranks)});
  if (app.hosts.empty() && app.in_job && !ChoosesHosts(app.mpirun)) {
    if (kind == MpiKind::kOpenMpi)
      command.insert(command.end(), {"--mca", "ras", "^slurm,tm,lsf,gridengine", "--mca", "plm",
                                     "isolated", "--host", Format("localhost:{}", app.ranks)});
    else
      command.insert(command.end(), {"-launcher", "fork", "-hosts", "localhost"});
  }
  if (!app.hosts.empty()) {
    std::string hosts;
    for (const HostRequest& host : app.hosts) {
      if (!hosts.empty()) hosts += ',';
      hosts += host.host;
      if (host.devices != kAllDevices) AppendFormat(hosts, ":{}", host.devices);
    }
    command.insert(command.end(), {kind == MpiKind::kOpenMpi ? "--host" : "-hosts", hosts});
    // Hydra passes on its whole environment by default.
    if (kind == MpiKind::kOpenMpi)
      for (const std::string& name : names) command.insert(command.end(), {"-x", name});
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace cuspan
