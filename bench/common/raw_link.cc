#include "bench/common/raw_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/common/child.h"
#include "common/format.h"
#include "common/settings.h"
#include "launcher/starter/mpi_launcher.h"
#include "launcher/text/words.h"

namespace cuspan::bench {

Status ChooseTransport(const std::string& name) {
  const auto set = [](const char* variable, const char* value) { ::setenv(variable, value, 1); };
  if (name == "auto") return Status::Ok();
  if (const std::string_view mpi = OwnMpiLauncher().name(); mpi != "Open MPI")
    return Status::Invalid("--transport selects a transport of Open MPI, but this MPI is {}", mpi);
  if (name == "ucx") {
    set("OMPI_MCA_opal_common_ucx_tls", "any");
    set("OMPI_MCA_opal_common_ucx_devices", "any");
    set("OMPI_MCA_pml", "ucx");
    return Status::Ok();
  }
  if (name != "tcp" && name != "shm")
    return Status::Invalid("'{}' is not a transport of MPI", name);
  set("UCX_TLS", name == "tcp" ? "tcp,self" : "sm,self");
  set("OMPI_MCA_pml", "ob1");
  set("OMPI_MCA_btl", name == "tcp" ? "tcp,self" : "vader,self");
  return Status::Ok();
}

Result<std::vector<double>> RunRaw(const std::string& folder, RelayKind kind,
                                   const std::string& host, int ranks,
                                   const std::vector<std::string>& words) {
  const std::string program = Format("{}/raw-{}", folder, NameOf(kind));
  Plan plan;
  plan.agents = {{std::string(kThisHost)}, {host}};
  const std::vector<std::string> extra = SplitWords(SettingText(settings::kMpirunArguments));
  Environment environment = Environment::OfThisProcess();
  const MpiLauncher& mpi = OwnMpiLauncher();
  mpi.AddSettings(environment, plan, extra, "", ::geteuid() == 0);
  std::vector<RankGroup> groups;
  for (const AgentPlan& agent : plan.agents) {
    groups.push_back({static_cast<std::uint32_t>(ranks), agent.host, {program}});
    std::vector<std::string>& command = groups.back().command;
    command.insert(command.end(), words.begin(), words.end());
  }
  std::vector<std::string> variables;
  for (const char* const name : {"UCX_TLS", "UCX_NET_DEVICES"})
    if (environment.Get(name)) variables.push_back(name);
  std::vector<std::string> command = mpi.Command(groups, extra, variables);
  const char* const mpirun = std::getenv("MPIRUN");
  command.front() = mpirun != nullptr && *mpirun != '\0' ? mpirun : "mpirun";
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(command, true, &environment));
  std::istringstream stream(text.substr(std::min(text.rfind('=') + 1, text.size())));
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  if (numbers.empty()) return Status::Internal("{} printed '{}'", program, text);
  return numbers;
}

const char* RawName(RelayKind kind) { return kind == RelayKind::kMpi ? "MPI" : "UCX"; }

}  // namespace cuspan::bench
