#include "launcher/starter/mpirun_starter.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "common/find_command.h"
#include "common/settings.h"
#include "launcher/host/end_processes.h"
#include "launcher/host/own_host.h"
#include "launcher/host/wait_status.h"
#include "launcher/run/run_key.h"
#include "launcher/starter/mpi_launcher.h"

namespace cuspan {
namespace {

// Any user may create any name in /tmp.
bool IsOwnFolder(const std::filesystem::path& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == ::geteuid();
}

// Networks of this host's encrypting interfaces. Open MPI accepts them in place of interface names,
// which may differ between hosts.
Result<std::vector<std::string>> SecureNetworks(const Environment& environment) {
  CUSPAN_ASSIGN_OR_RETURN(const SecurePolicy policy,
                          ParseSecure(environment.Get(settings::kSecure.name).value_or("off")));
  CUSPAN_ASSIGN_OR_RETURN(
      const std::set<std::string> interfaces,
      SecureInterfaces(ParseSecureHosts(environment.Get(kSecureHostsVariable).value_or("")),
                       policy));
  std::vector<std::string> networks;
  for (const std::string& interface : interfaces) {
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> own, NetworksOf(interface));
    networks.insert(networks.end(), own.begin(), own.end());
  }
  return networks;
}

class MpirunStarter final : public AgentStarter {
 public:
  MpirunStarter(Plan plan, Environment environment, std::vector<std::string> command)
      : AgentStarter(std::move(plan), std::move(environment)) {
    command_ = std::move(command);
  }

  void Started(pid_t mpirun) override {
    folders_ = mpi_.Folders(environment_, OwnHostName(), ::geteuid(), mpirun);
  }

  // Finds MPI's shared memory on this host: each agent and lane has a file, and maps all of them.
  void SetHeadPid(pid_t agent) override {
    std::ifstream maps(Format("/proc/{}/maps", agent));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t name = line.find(Format("/dev/shm/{}", mpi_.shared_memory()));
      if (name == std::string::npos) continue;
      const std::string file = line.substr(name);
      if (std::find(shared_memory_.begin(), shared_memory_.end(), file) == shared_memory_.end())
        shared_memory_.push_back(file);
    }
  }

  bool IsForUser(std::string_view line, bool) const override { return line.starts_with("cuspan"); }
  std::string WaitsFor() const override {
    return Format("{} to start the agents on {}", command_.front(), HostsText(plan_));
  }
  bool IsEnding(std::string_view kept) const override { return mpi_.JobHasEnded(kept); }
  bool MayRetryStart(std::string_view kept) const override { return mpi_.MayRetryStart(kept); }

  std::string ExplainEnd(std::string_view kept, std::optional<int> wait_status) const override {
    if (wait_status && WIFSIGNALED(*wait_status))
      return Format("mpirun {}", DescribeExit(*wait_status));
    return mpi_.Explain(kept, plan_);
  }

  void RemoveTemporaryFiles() override {
    for (const std::string& file : shared_memory_) ::unlink(file.c_str());
    for (const MpiLauncher::Folder& folder : folders_) {
      const std::filesystem::path path(folder.path);
      if (!IsOwnFolder(path) || (folder.in_own && !IsOwnFolder(path.parent_path()))) continue;
      // mpirun was killed: its agents end by themselves, but may create files until then.
      EndProcessesWith(RunKey::kVariable, environment_.Get(RunKey::kVariable).value_or(""));
      RemoveSharedMemoryOf(folder.path);
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
      // Files of other jobs of this user may remain there.
      if (folder.in_own) ::rmdir(path.parent_path().c_str());
    }
  }

 private:
  void RemoveSharedMemoryOf(const std::string& folder) const {
    std::error_code ignored;
    for (auto entry = std::filesystem::directory_iterator("/dev/shm", ignored);
         !ignored && entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
      struct stat about {};
      if (::lstat(entry->path().c_str(), &about) == 0 && about.st_uid == ::geteuid() &&
          mpi_.IsSharedMemoryOf(folder, entry->path().filename().string()))
        ::unlink(entry->path().c_str());
    }
  }

  const MpiLauncher& mpi_ = OwnMpiLauncher();
  std::vector<MpiLauncher::Folder> folders_;
  std::vector<std::string> shared_memory_;  // Files on this host.
};

}  // namespace

Result<std::unique_ptr<AgentStarter>> MakeMpirunStarter(Plan plan, Environment environment,
                                                        const AgentCommand& agent,
                                                        const ClusterOptions& options) {
  if (InsideMpiJob(environment)) StripMpi(environment);
  const MpiLauncher& mpi = OwnMpiLauncher();
  CUSPAN_RETURN_IF_ERROR(mpi.CheckReach(environment, plan, options.mpirun_arguments));
  CUSPAN_RETURN_IF_ERROR(mpi.CheckNames(plan, OwnHostName()));
  mpi.AddSettings(environment, plan, options.mpirun_arguments, options.remote_shell,
                  ::geteuid() == 0);
  if (environment.Get(kSecureHostsVariable)) {
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> networks, SecureNetworks(environment));
    CUSPAN_RETURN_IF_ERROR(mpi.Confine(environment, networks, options.mpirun_arguments));
  }
  std::vector<std::string> variables = SettingNames(environment);
  for (const std::string& entry : environment.entries())
    if (mpi.MustPass(entry)) variables.push_back(entry.substr(0, entry.find('=')));
  std::vector<std::string> command =
      mpi.Command(RanksOf(plan, agent), options.mpirun_arguments, variables);
  command.front() = options.mpirun;
  if (const Result<std::string> found =
          FindCommand(options.mpirun, environment.Get("PATH").value_or(""));
      !found.ok())
    return Status::NotFound("{}; install {}, or set MPIRUN to its mpirun", found.status().message(),
                            mpi.name());
  return std::unique_ptr<AgentStarter>(
      std::make_unique<MpirunStarter>(std::move(plan), std::move(environment), std::move(command)));
}

}  // namespace cuspan
