#include "bench/common/raw_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/common/child.h"
#include "common/format.h"
#include "common/settings.h"
#include "launcher/starter/mpirun_command.h"

namespace cuspan::bench {

Status ChooseTransport(const std::string& name) {
  const auto set = [](const char* variable, const char* value) { ::setenv(variable, value, 1); };
  if (name == "auto") return Status::Ok();
  if (name == "ucx") {
    set("OMPI_MCA_opal_common_ucx_tls", "any");
    set("OMPI_MCA_opal_common_ucx_devices", "any");
    set("OMPI_MCA_pml", "ucx");
    return Status::Ok();
  }
  if (name != "tcp" && name != "shm") return Status::Invalid("'{}' is no transport of MPI", name);
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
  AddMpirunSettings(environment, plan, extra, ::geteuid() == 0);
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  for (const char* const name : {"UCX_TLS", "UCX_NET_DEVICES"})
    if (environment.Get(name)) command.insert(command.end(), {"-x", name});
  command.insert(command.end(), extra.begin(), extra.end());
  for (const AgentPlan& agent : plan.agents) {
    if (&agent != &plan.agents.front()) command.push_back(":");
    command.insert(command.end(), {"-np", std::to_string(ranks), "--host", agent.host, program});
    command.insert(command.end(), words.begin(), words.end());
  }
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(command, true, &environment));
  std::istringstream stream(text.substr(std::min(text.rfind('=') + 1, text.size())));
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  if (numbers.empty()) return Status::Internal("{} printed '{}'", program, text);
  return numbers;
}

const char* RawName(RelayKind kind) { return kind == RelayKind::kMpi ? "MPI" : "UCX"; }

}  // namespace cuspan::bench
