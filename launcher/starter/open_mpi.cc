#include "launcher/starter/open_mpi.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "common/settings.h"
#include "launcher/run/host_names.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

// "… on node HOST exited on signal 9 (Killed)."; Open MPI 5 breaks the line before "signal".
std::string ExplainDeath(std::string_view line, std::string_view next) {
  const std::size_t node = line.find(" on node ");
  if (node == std::string_view::npos) return {};
  std::string whole(line.substr(node + 9));
  if (whole.ends_with("exited on")) whole.append(" ").append(next);
  std::string_view rest = whole;
  const std::size_t blank = rest.find(' ');
  if (blank == std::string_view::npos) return {};
  const std::string_view host = rest.substr(0, blank);
  rest.remove_prefix(blank + 1);
  if (!rest.empty() && rest.back() == '.') rest.remove_suffix(1);
  return Format("the agent on host {} {}", host, rest);
}

// "  Remote daemon: [[1,0],1] on node HOST"
std::string ExplainLostDaemon(std::string_view line) {
  const std::size_t node = line.find(" on node ");
  if (node == std::string_view::npos) return {};
  return Format("host {} was lost: its Open MPI daemon exited or cannot be reached",
                line.substr(node + 9));
}

// "A call to mkdir was unable to create the desired directory:", "Directory: …", "Error: …".
struct UnmadeFolder {
  std::string_view path;
  std::string_view error;
};
std::optional<UnmadeFolder> FindUnmadeFolder(const std::vector<std::string_view>& lines) {
  const auto after = [](std::string_view line, std::string_view label) {
    return line.substr(std::min(line.find_first_not_of(' ', label.size()), line.size()));
  };
  std::optional<UnmadeFolder> found;
  for (const std::string_view line : lines) {
    if (line.starts_with("A call to mkdir was unable")) found.emplace();
    if (!found) continue;
    if (line.starts_with("Directory:")) found->path = after(line, "Directory:");
    if (line.starts_with("Error:")) {
      found->error = after(line, "Error:");
      return found;
    }
  }
  return std::nullopt;
}

// Lines of remote shells, or of the shell on the other host. Open MPI's own lines are in boxes, or
// start with its mark.
std::vector<std::string_view> OfOthers(const std::vector<std::string_view>& lines) {
  std::vector<std::string_view> others;
  bool in_box = false;
  for (const std::string_view line : lines) {
    if (line.starts_with("-----"))
      in_box = !in_box;
    else if (!in_box && !line.starts_with('[') && !line.starts_with("ORTE "))
      others.push_back(line);
  }
  return others;
}

bool NamesNetworkLayer(const std::vector<std::string>& extra, std::string_view name) {
  return std::any_of(extra.begin(), extra.end(), [name](const std::string& word) {
    return word.find(name) != std::string::npos;
  });
}

// The second is for PRRTE, the mpirun of Open MPI 5.
constexpr std::array<const char*, 2> kKeepsFullNames = {"OMPI_MCA_orte_keep_fqdn_hostnames",
                                                        "PRTE_MCA_prte_keep_fqdn_hostnames"};

// True for names with a dot; addresses are never cut.
bool IsFullName(const std::string& host) {
  in_addr address{};
  return host.find('.') != std::string::npos && ::inet_pton(AF_INET, host.c_str(), &address) != 1;
}

std::vector<std::string> HostsOf(const Plan& plan) {
  std::vector<std::string> hosts;
  for (const AgentPlan& agent : plan.agents) hosts.push_back(agent.host);
  return hosts;
}

bool OnThisHost(const Plan& plan) {
  return std::all_of(plan.agents.begin(), plan.agents.end(),
                     [](const AgentPlan& agent) { return agent.host == kThisHost; });
}

// mpirun prints this and hangs.
bool ReportsFewDescriptors(std::string_view output) {
  return output.find("The system limit on number of pipes a process can open was reached") !=
         std::string_view::npos;
}

bool ReportsNoSpace(std::string_view output) {
  return output.find("PMIX ERROR: OUT-OF-RESOURCE") != std::string_view::npos ||
         output.find("PMIX ERROR: NO-SPACE") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> OpenMpi::Command(const std::vector<RankGroup>& ranks,
                                          const std::vector<std::string>& extra,
                                          const std::vector<std::string>& variables) const {
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  command.insert(command.end(), extra.begin(), extra.end());
  for (const RankGroup& group : ranks) {
    if (&group != &ranks.front()) command.push_back(":");
    command.insert(command.end(), {"-np", std::to_string(group.count), "--host", group.host});
    for (const std::string& name : variables) command.insert(command.end(), {"-x", name});
    command.insert(command.end(), group.command.begin(), group.command.end());
  }
  return command;
}

Status OpenMpi::CheckReach(const Environment& environment, const Plan& plan,
                           const std::vector<std::string>& extra) const {
  if (OnThisHost(plan) || NamesNetworkLayer(extra, "plm") ||
      environment.Get("OMPI_MCA_plm") != "isolated")
    return Status::Ok();
  return Status::Invalid(
      "OMPI_MCA_plm=isolated restricts mpirun to this host: unset it to use other hosts");
}

void KeepFullHostNames(const std::vector<std::string>& hosts, Environment& environment) {
  if (std::none_of(hosts.begin(), hosts.end(), IsFullName)) return;
  for (const char* const name : kKeepsFullNames) environment.Set(name, "1");
}

Status OpenMpi::CheckNames(const Plan& plan, std::string_view own_name) const {
  const std::vector<std::string> hosts = HostsOf(plan);
  // It keeps full names only if another host has one.
  if (std::any_of(hosts.begin(), hosts.end(), IsFullName)) return Status::Ok();
  for (const std::string& host : hosts)
    if (host != kThisHost && MayBeSameHost(host, own_name))
      return Status::Invalid(
          "Open MPI confuses host {} with this host, {}: use its full name, or --relay ucx", host,
          own_name);
  return Status::Ok();
}

void OpenMpi::AddSettings(Environment& environment, const Plan& plan,
                          const std::vector<std::string>& extra, const std::string& remote_shell,
                          bool root) const {
  const auto set_unless_chosen = [&](const char* name, const char* value) {
    if (!environment.Get(name)) environment.Set(name, value);
  };
  KeepFullHostNames(HostsOf(plan), environment);
  if (!remote_shell.empty()) environment.Set("OMPI_MCA_plm_rsh_agent", remote_shell);
  if (!remote_shell.empty() || environment.Get(settings::kBatch.name) == "off") {
    // Required in a batch job too: the batch system's own way may not know all hosts.
    if (!OnThisHost(plan) && !NamesNetworkLayer(extra, "plm")) {
      set_unless_chosen("OMPI_MCA_plm", "rsh");
      set_unless_chosen("PRTE_MCA_plm", "ssh");
    }
    for (const char* const name : {"OMPI_MCA_ras", "PRTE_MCA_ras"})
      set_unless_chosen(name, "^slurm,tm,lsf,gridengine");
  }
  // Measured: naming both cuts the start of MPI from 0.25 s to 0.05 s.
  if (!environment.Get("OMPI_MCA_pml")) {
    environment.Set("OMPI_MCA_pml", "ob1");
    set_unless_chosen("OMPI_MCA_btl", "tcp,vader,self");
  }
  // The agents detect a disconnected host themselves, and lose only its GPUs. mpirun would detect
  // it after eight minutes and end all agents.
  if (environment.Get(settings::kHeartbeat.name) != "off")
    set_unless_chosen("OMPI_MCA_oob_tcp_keepalive_time", "0");
  if (root) {
    environment.Set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    environment.Set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // mpirun needs an ssh even if all agents are on this host, and a container may have none.
  if (OnThisHost(plan) && !NamesNetworkLayer(extra, "plm"))
    set_unless_chosen("OMPI_MCA_plm", "isolated");
  // The agents have no terminal to answer a question of ssh.
  if (!NamesNetworkLayer(extra, "plm_rsh_") && !environment.Get("OMPI_MCA_plm_rsh_agent"))
    set_unless_chosen("OMPI_MCA_plm_rsh_args", "-oBatchMode=yes -oConnectTimeout=10");
  // Open MPI 5 uses PRRTE's mpirun, with separate names for its own parameters.
  constexpr std::pair<const char*, const char*> kOfPrrte[] = {
      {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"},
      {"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"},
      {"OMPI_MCA_oob_tcp_keepalive_time", "PRTE_MCA_oob_tcp_keepalive_time"}};
  for (const auto& [name, of_prrte] : kOfPrrte)
    if (const auto value = environment.Get(name); value && !environment.Get(of_prrte))
      environment.Set(of_prrte, std::string(*value));
}

Status OpenMpi::Confine(Environment& environment, const std::vector<std::string>& networks,
                        const std::vector<std::string>& extra) const {
  // AddSettings has run before: other values are the user's.
  if (!extra.empty())
    return Status::Invalid(
        "--secure sets the arguments of mpirun itself: remove --mpirun-args ({})",
        QuoteForShell(extra));
  for (const char* const name : {"OMPI_MCA_pml", "OMPI_MCA_mtl"})
    if (const auto value = environment.Get(name); value && *value != "ob1")
      return Status::Invalid("--secure restricts Open MPI to TCP: unset {}={}", name, *value);
  // Hosts are reached by the remote shell, even if a batch system has a way of its own.
  if (environment.Get("OMPI_MCA_plm") != "isolated") environment.Set("OMPI_MCA_plm", "rsh");
  environment.Set("PRTE_MCA_plm", "ssh");
  environment.Set("OMPI_MCA_plm_rsh_disable_qrsh", "1");
  for (const char* const name : {"OMPI_MCA_ras", "PRTE_MCA_ras"})
    environment.Set(name, "^slurm,tm,lsf,gridengine");
  // Shared memory within a node is "vader" in version 4, "sm" in 5.
  environment.Set("OMPI_MCA_btl", "tcp,vader,self");
  std::string list;
  for (const std::string& network : networks) list += (list.empty() ? "" : ",") + network;
  for (const char* const name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                                 "PRTE_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"})
    environment.Set(name, list);
  for (const char* const name : {"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude",
                                 "PRTE_MCA_oob_tcp_if_exclude", "PRTE_MCA_prte_if_exclude"})
    environment.Unset(name);
  return Status::Ok();
}

std::vector<MpiLauncher::Folder> OpenMpi::Folders(const Environment& environment,
                                                  std::string_view host, unsigned user,
                                                  int pid) const {
  // Source: orte/util/session_dir.c and opal/util/os_dirpath of Open MPI 4.1; observed for 5.0.
  std::string_view base = "/tmp";
  for (const char* name : {"TMP", "TEMP", "TMPDIR", "OMPI_MCA_orte_tmpdir_base"})
    if (const auto value = environment.Get(name); value && !value->empty()) base = *value;
  std::vector<Folder> folders = {
      {Format("{}/ompi.{}.{}/pid.{}", base, host.substr(0, host.find('.')), user, pid), true},
      {Format("{}/ompi.{}", base, pid), false}};
  if (host.find('.') != std::string_view::npos)  // Case of full host names.
    folders.push_back({Format("{}/ompi.{}.{}/pid.{}", base, host, user, pid), true});
  return folders;
}

bool OpenMpi::IsSharedMemoryOf(const std::string& folder, std::string_view name) const {
  // "JOB.0;ADDRESS…": the upper half of the 32-bit JOB is common to all jobs of this mpirun
  // (orte/util/hnp_contact.c).
  std::ifstream contact(folder + "/contact.txt");
  std::uint32_t mpirun = 0;
  if (!name.starts_with(shared_memory()) || !(contact >> mpirun)) return false;
  // "vader_segment.HOST.USER.JOB.RANK", with JOB in hexadecimal digits (btl_vader_component.c).
  const std::size_t rank = name.rfind('.');
  if (rank == 0 || rank == name.npos) return false;
  const std::size_t start = name.rfind('.', rank - 1) + 1;
  std::uint32_t job = 0;
  const auto [end, error] = std::from_chars(name.data() + start, name.data() + rank, job, 16);
  return error == std::errc() && end == name.data() + rank && job >> 16 == mpirun >> 16;
}

bool OpenMpi::MayRetryStart(std::string_view output) const {
  const std::optional<UnmadeFolder> unmade = FindUnmadeFolder(OutputLines(output));
  return unmade &&
         (unmade->error == std::strerror(ENOENT) || unmade->error == std::strerror(EEXIST));
}

bool OpenMpi::JobHasEnded(std::string_view output) const {
  return output.find("mpirun detected that one or more processes exited") !=
             std::string_view::npos ||
         ReportsNoSpace(output) || ReportsFewDescriptors(output);
}

std::string OpenMpi::Explain(std::string_view output, const Plan& plan) const {
  const std::vector<std::string_view> lines = OutputLines(output);
  const auto find = [&lines](auto matches) {
    return std::find_if(lines.begin(), lines.end(), matches);
  };
  const auto has = [](std::string_view line, std::string_view part) {
    return line.find(part) != std::string_view::npos;
  };

  // If a host is unreachable, all other messages are consequences.
  std::vector<std::string_view> of_shells;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(of_shells), IsSshMessage);
  if (!of_shells.empty()) return ExplainUnreached(of_shells, plan);
  if (const auto line = find([&](std::string_view l) { return has(l, " exited on"); });
      line != lines.end()) {
    const std::string_view next = line + 1 != lines.end() ? *(line + 1) : std::string_view();
    if (std::string why = ExplainDeath(*line, next); !why.empty()) return why;
  }
  if (const auto line = find([&](std::string_view l) { return l.starts_with("Remote daemon:"); });
      line != lines.end()) {
    if (std::string why = ExplainLostDaemon(*line); !why.empty()) return why;
  }
  if (const std::optional<UnmadeFolder> unmade = FindUnmadeFolder(lines))
    return Format(
        "Open MPI could not create its directory {} on a host: {}; set TMPDIR to another directory",
        unmade->path, unmade->error);
  if (ReportsNoSpace(output))
    return "no space for Open MPI's files in its temporary directory (TMPDIR, otherwise /tmp) on a "
           "host: free some space there, or set TMPDIR to another directory";
  if (ReportsFewDescriptors(output))
    return "mpirun has too few file descriptors for its agents: raise the limit of open files "
           "(ulimit -n) where the run is started";
  const bool unreachable = find([&](std::string_view line) {
                             return has(line, "unable to reliably start one or more daemons") ||
                                    has(line, "ORTE does not know how to route") ||
                                    has(line, "daemon has failed") || has(line, "failed to start");
                           }) != lines.end();
  if (unreachable) {
    std::vector<std::string_view> words = OfOthers(lines);
    if (words.empty())
      words.emplace_back("Open MPI's daemon there could not be started, or has exited");
    return ExplainUnreached(words, plan);
  }
  if (const auto line = find([&](std::string_view l) { return l.starts_with("Executable:"); });
      line != lines.end()) {
    const auto node = find([&](std::string_view l) { return l.starts_with("Node:"); });
    return Format("host {} has no {}: install cuspan in the same directory on every host",
                  node == lines.end() ? "?" : node->substr(6), line->substr(12));
  }
  if (const auto line = find([&](std::string_view l) { return l.starts_with("plm_rsh_agent:"); });
      line != lines.end())
    return Format(
        "the remote shell of Open MPI does not exist ({}): name another one with --remote-shell",
        *line);
  const auto first = find(
      [&](std::string_view line) { return !line.starts_with("---") && !line.starts_with("[["); });
  if (first == lines.end()) return "mpirun exited without a message";
  return Format("mpirun: {}", *first);
}

}  // namespace cuspan
