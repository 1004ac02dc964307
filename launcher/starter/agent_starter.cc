#include "launcher/starter/agent_starter.h"

#include <algorithm>
#include <filesystem>

#include "common/batch_system.h"
#include "common/cores.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/batch/batch_job.h"
#include "launcher/batch/slurm_run.h"
#include "launcher/host/own_host.h"
#include "launcher/run/client_environment.h"
#include "launcher/run/host_names.h"
#include "launcher/starter/agent_command.h"
#include "launcher/starter/direct_starter.h"
#include "launcher/starter/mpirun_starter.h"
#include "launcher/starter/relay_choice.h"

namespace cuspan {

Result<Plan> PlanRun(const InstallPaths& paths, ClusterOptions& options, Environment& environment) {
  // Hosts named in a Slurm job are reached through Slurm as well. A remote shell named by the user
  // reaches its hosts independent of the job.
  if (options.hosts.empty() || (InsideSlurmJob(environment) && options.remote_shell.empty()))
    CUSPAN_RETURN_IF_ERROR(UseBatchJob(paths, options, environment));
  const std::string own_name = OwnHostName();
  RenameThisHost(options.hosts, own_name);
  RenameThisHost(options.program_hosts, own_name);
  Plan plan = MakePlan(options.hosts, options.same_node, own_name, options.program_hosts);
  if (options.relay) {
    plan.relay = *options.relay;
  } else if (plan.relayed()) {
    const RelayChoice choice =
        ChooseRelay(options, environment, [&paths] { return HasUcx(paths); });
    LogInfo("--relay auto: {}: {}", NameOf(choice.kind), choice.reason);
    plan.relay = choice.kind;
  }
  if (plan.relayed()) plan.lanes = options.lanes.value_or(AutoLanes(plan.relay, AvailableCores()));
  return plan;
}

Result<SecureHosts> CheckSecure(const Plan& plan, const ClusterOptions& options, bool own_shell,
                                const Environment& environment) {
  if (!options.secure.on) return SecureHosts();
  const std::string own_name = OwnHostName();
  const bool ranks_elsewhere = std::any_of(
      options.program_hosts.begin(), options.program_hosts.end(),
      [&own_name](const HostRequest& host) { return !IsThisHost(host.host, own_name); });
  if (options.program_in_job || ranks_elsewhere)
    return Status::Refused(
        "--secure: mpirun or srun may send the secret of the run to ranks on other hosts "
        "unencrypted: start all ranks on this host");
  if (!plan.relayed()) return SecureHosts();
  if (!own_shell && !options.remote_shell.empty() && !plan.mpi() &&
      BatchSystemAround(environment) != BatchSystem::kNone)
    return Status::Refused(
        "--secure: in a batch job the commands starting agents (srun, blaunch) may send the secret "
        "of the run unencrypted: use --remote-shell ssh, or --relay mpi");
  std::vector<std::string> named;
  for (const AgentPlan& agent : plan.agents)
    if (agent.host != kThisHost) named.push_back(agent.host);
  return FindSecureHosts(named, options.secure);
}

Result<std::unique_ptr<AgentStarter>> AgentStarter::Make(const ClusterOptions& wanted,
                                                         const InstallPaths& paths,
                                                         const RunKey& key) {
  ClusterOptions options = wanted;
  Environment environment = Environment::OfThisProcess();
  CUSPAN_ASSIGN_OR_RETURN(Plan plan, PlanRun(paths, options, environment));
  CUSPAN_ASSIGN_OR_RETURN(const SecureHosts secure,
                          CheckSecure(plan, options, !wanted.remote_shell.empty(), environment));
  environment.Unset(kSecureHostsVariable);
  if (!secure.empty()) environment.Set(kSecureHostsVariable, SecureHostsText(secure));
  StripOuterRun(environment);
  environment.Set(RunKey::kVariable, key.Text());
  for (const AgentVariable& variable : AgentVariables(options, plan.lanes))
    environment.Set(variable.setting->name, variable.value);
  const auto set_unless_chosen = [&environment](const Setting& setting, std::uint32_t value) {
    if (!environment.Get(setting.name)) environment.Set(setting.name, std::to_string(value));
  };
  if (plan.lanes > 1) {
    set_unless_chosen(settings::kStagingBuffers, StagingBuffersFor(plan.lanes));
    set_unless_chosen(settings::kSendsInFlight, SendsInFlightFor(plan.lanes));
  }
  // Required for software GPUs too: worker agents do not know the request, only this setting.
  if (options.request.share.shared) environment.Set(settings::kLeases.name, "on");
  // Agents may have another working directory.
  if (const auto log = environment.Get(settings::kLeaseLog.name);
      log && *log != settings::kLeaseLog.default_value)
    environment.Set(settings::kLeaseLog.name, std::filesystem::absolute(*log).string());

  AgentCommand agent{paths.agent, paths.agent, GpuRequestOptions(options.request)};
  if (!options.remote_prefix.empty())
    agent.remote_path = options.remote_prefix + "/bin/cuspan-agent";
  if (!options.trace.empty())
    agent.head_options.insert(agent.head_options.end(), {settings::kTrace.option, options.trace});
  Status obstacle = CheckRemoteShell(plan, options, environment);
  std::unique_ptr<AgentStarter> starter;
  if (plan.mpi()) {
    CUSPAN_ASSIGN_OR_RETURN(
        starter, MakeMpirunStarter(std::move(plan), std::move(environment), agent, options));
  } else {
    starter = MakeDirectStarter(std::move(plan), std::move(environment), agent, options);
  }
  starter->obstacle_ = std::move(obstacle);
  return starter;
}

}  // namespace cuspan
