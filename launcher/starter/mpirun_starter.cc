#include "launcher/starter/mpirun_starter.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "launcher/app_process.h"
#include "launcher/own_host.h"
#include "launcher/wait_status.h"

namespace cuspan {
namespace {

class MpirunStarter final : public AgentStarter {
 public:
  MpirunStarter(Plan plan, Environment environment, std::vector<std::string> command)
      : AgentStarter(std::move(plan), std::move(environment)) {
    command_ = std::move(command);
  }

  void Started(pid_t mpirun) override {
    folder_ = MpirunFolder(environment_, OwnHostName(), ::geteuid(), mpirun);
  }

  // Learns which shared memory MPI has here: each agent and lane has a file, and maps those of all.
  void HomeIs(pid_t agent) override {
    std::ifstream maps(Format("/proc/{}/maps", agent));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t name = line.find("/dev/shm/vader_segment.");
      if (name == std::string::npos) continue;
      const std::string file = line.substr(name);
      if (std::find(shared_memory_.begin(), shared_memory_.end(), file) == shared_memory_.end())
        shared_memory_.push_back(file);
    }
  }

  bool IsForUser(std::string_view line, bool) const override { return line.starts_with("cuspan"); }
  bool IsEnding(std::string_view kept) const override { return JobHasEnded(kept); }
  bool MayStartAgain(std::string_view kept) const override { return LostItsFolder(kept); }

  std::string ExplainEnd(std::string_view kept, std::optional<int> wait_status) const override {
    if (wait_status && WIFSIGNALED(*wait_status))
      return Format("mpirun {}", DescribeExit(*wait_status));
    return ExplainMpirun(kept, plan_);
  }

  void RemoveTemporaryFiles() override {
    for (const std::string& file : shared_memory_) ::unlink(file.c_str());
    if (folder_.empty()) return;
    const std::filesystem::path folder(folder_);
    // In /tmp anybody may have put something under that name.
    struct stat parent {};
    if (::lstat(folder.parent_path().c_str(), &parent) != 0 || !S_ISDIR(parent.st_mode) ||
        parent.st_uid != ::geteuid())
      return;
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    // Others of this user's may lie there.
    ::rmdir(folder.parent_path().c_str());
  }

 private:
  std::string folder_;
  std::vector<std::string> shared_memory_;  // Files on this host.
};

}  // namespace

Result<std::unique_ptr<AgentStarter>> MakeMpirunStarter(Plan plan, Environment environment,
                                                        const AgentCommand& agent,
                                                        const ClusterOptions& options) {
  if (InsideMpiJob(environment)) StripMpi(environment);
  if (!options.remote_shell.empty())
    environment.Set("OMPI_MCA_plm_rsh_agent", options.remote_shell);
  CUSPAN_RETURN_IF_ERROR(CheckReach(environment, plan, options.mpirun_arguments));
  AddMpirunSettings(environment, plan, options.mpirun_arguments, ::geteuid() == 0);
  std::vector<std::string> command =
      MpirunCommand(plan, agent, options.mpirun_arguments, SettingNames(environment));
  command.front() = options.mpirun;
  if (const Result<std::string> found =
          FindCommand(options.mpirun, environment.Get("PATH").value_or(""));
      !found.ok())
    return Status::NotFound("{}; install Open MPI, or set MPIRUN to its mpirun",
                            found.status().message());
  return std::unique_ptr<AgentStarter>(
      std::make_unique<MpirunStarter>(std::move(plan), std::move(environment), std::move(command)));
}

}  // namespace cuspan
