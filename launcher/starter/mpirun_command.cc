#include "launcher/starter/mpirun_command.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/settings.h"

namespace cuspan {
namespace {

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// The host of the plan that a line of ssh names; "" when none is.
std::string NamedHost(std::string_view line, const Plan& plan) {
  std::string best;
  for (const AgentPlan& agent : plan.agents)
    if (agent.host.size() > best.size() && line.find(agent.host) != std::string_view::npos)
      best = agent.host;
  return best;
}

// "… on node HOST exited on signal 9 (Killed).", which Open MPI 5 breaks before "signal".
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

bool NamesNetworkLayer(const std::vector<std::string>& extra, std::string_view name) {
  return std::any_of(extra.begin(), extra.end(), [name](const std::string& word) {
    return word.find(name) != std::string::npos;
  });
}

bool OnThisHost(const Plan& plan) {
  return std::all_of(plan.agents.begin(), plan.agents.end(),
                     [](const AgentPlan& agent) { return agent.host == kThisHost; });
}

bool SaysNoSpace(std::string_view output) {
  return output.find("PMIX ERROR: OUT-OF-RESOURCE") != std::string_view::npos ||
         output.find("PMIX ERROR: NO-SPACE") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> AgentPlanOptions(const Plan& plan, std::size_t agent) {
  std::vector<std::string> options = {"--serve", ServeText(plan.agents[agent].devices)};
  if (agent == 0 && plan.home_place != 0) {
    options.push_back("--place");
    options.push_back(std::to_string(plan.home_place));
  }
  return options;
}

std::vector<std::string> MpirunCommand(const Plan& plan, const AgentCommand& agent,
                                       const std::vector<std::string>& extra,
                                       const std::vector<std::string>& settings) {
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  command.insert(command.end(), extra.begin(), extra.end());
  const auto add_ranks = [&](std::uint32_t count, const std::string& host) {
    command.insert(command.end(), {"-np", std::to_string(count), "--host", host});
    for (const std::string& name : settings) command.insert(command.end(), {"-x", name});
    command.push_back(host == kThisHost ? agent.path : agent.remote_path);
  };
  for (std::size_t i = 0; i < plan.agents.size(); ++i) {
    if (i != 0) command.push_back(":");
    add_ranks(1, plan.agents[i].host);
    const std::vector<std::string> options = AgentPlanOptions(plan, i);
    command.insert(command.end(), options.begin(), options.end());
    if (i == 0) command.insert(command.end(), agent.home_options.begin(), agent.home_options.end());
  }
  if (plan.lanes > 1) {
    for (const AgentPlan& planned : plan.agents) {
      command.push_back(":");
      add_ranks(plan.lanes, planned.host);
    }
  }
  return command;
}

Status CheckReach(const Environment& environment, const Plan& plan,
                  const std::vector<std::string>& extra) {
  if (OnThisHost(plan) || NamesNetworkLayer(extra, "plm") ||
      environment.Get("OMPI_MCA_plm") != "isolated")
    return Status::Ok();
  return Status::Invalid(
      "OMPI_MCA_plm=isolated keeps mpirun on this host: unset it to use other hosts");
}

void AddMpirunSettings(Environment& environment, const Plan& plan,
                       const std::vector<std::string>& extra, bool root) {
  const auto set_unless_chosen = [&](const char* name, const char* value) {
    if (!environment.Get(name)) environment.Set(name, value);
  };
  // Naming both cuts the start of MPI from 0.25 s to 0.05 s (DESIGN.md 7).
  if (!environment.Get("OMPI_MCA_pml")) {
    environment.Set("OMPI_MCA_pml", "ob1");
    set_unless_chosen("OMPI_MCA_btl", "tcp,vader,self");
  }
  // A host that is cut off is the agents' own to notice, and costs its GPUs. mpirun would notice it
  // after eight minutes, and end all agents.
  if (environment.Get(settings::kHeartbeat.name) != "off")
    set_unless_chosen("OMPI_MCA_oob_tcp_keepalive_time", "0");
  if (root) {
    environment.Set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    environment.Set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // mpirun asks for an ssh even where it starts nothing elsewhere, and a container may have none.
  if (OnThisHost(plan) && !NamesNetworkLayer(extra, "plm"))
    set_unless_chosen("OMPI_MCA_plm", "isolated");
  // The agents have no terminal, so a question of ssh could not be answered.
  if (!NamesNetworkLayer(extra, "plm_rsh_") && !environment.Get("OMPI_MCA_plm_rsh_agent"))
    set_unless_chosen("OMPI_MCA_plm_rsh_args", "-oBatchMode=yes -oConnectTimeout=10");
  // The mpirun of Open MPI 5 is PRRTE's, which has names of its own for what it does itself.
  constexpr std::pair<const char*, const char*> kOfPrrte[] = {
      {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"},
      {"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"},
      {"OMPI_MCA_oob_tcp_keepalive_time", "PRTE_MCA_oob_tcp_keepalive_time"}};
  for (const auto& [name, of_prrte] : kOfPrrte)
    if (const auto value = environment.Get(name); value && !environment.Get(of_prrte))
      environment.Set(of_prrte, std::string(*value));
}

std::string QuoteForShell(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_@%+=:,./-") == std::string::npos;
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::vector<MpirunFolder> MpirunFolders(const Environment& environment, std::string_view host,
                                        unsigned user, int pid) {
  // orte/util/session_dir.c and opal/util/os_dirpath of Open MPI 4.1; and as 5.0 was seen to do.
  std::string_view base = "/tmp";
  for (const char* name : {"TMP", "TEMP", "TMPDIR", "OMPI_MCA_orte_tmpdir_base"})
    if (const auto value = environment.Get(name); value && !value->empty()) base = *value;
  return {{Format("{}/ompi.{}.{}/pid.{}", base, host.substr(0, host.find('.')), user, pid), true},
          {Format("{}/ompi.{}", base, pid), false}};
}

bool LostItsFolder(std::string_view output) {
  const std::optional<UnmadeFolder> unmade = FindUnmadeFolder(Lines(output));
  return unmade &&
         (unmade->error == std::strerror(ENOENT) || unmade->error == std::strerror(EEXIST));
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

bool JobHasEnded(std::string_view output) {
  return output.find("mpirun detected that one or more processes exited") !=
             std::string_view::npos ||
         SaysNoSpace(output);
}

std::string ExplainMpirun(std::string_view output, const Plan& plan) {
  const std::vector<std::string_view> lines = Lines(output);
  const auto find = [&lines](auto matches) {
    return std::find_if(lines.begin(), lines.end(), matches);
  };
  const auto has = [](std::string_view line, std::string_view part) {
    return line.find(part) != std::string_view::npos;
  };

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
  // What ssh, or another program that reaches a host, says of itself comes before mpirun's own
  // text.
  if (SaysNoSpace(output))
    return "no space for Open MPI's files in its temporary directory (TMPDIR, otherwise /tmp) on a "
           "host: free some space there, or set TMPDIR to another directory";
  const bool unreachable = find([&](std::string_view line) {
                             return has(line, "unable to reliably start one or more daemons") ||
                                    has(line, "ORTE does not know how to route") ||
                                    has(line, "daemon has failed") || has(line, "failed to start");
                           }) != lines.end();
  if (unreachable) {
    const auto reason = find([&](std::string_view line) { return !line.starts_with("---"); });
    const bool own_words = reason != lines.end() && !has(*reason, "ORTE was unable");
    const std::string_view why =
        own_words ? *reason : "Open MPI's daemon there could not be started, or has exited";
    std::string host = NamedHost(own_words ? *reason : "", plan);
    if (host.empty() && plan.agents.size() == 2) host = plan.agents[1].host;
    if (host.empty()) return Format("a host cannot be reached: {}", why);
    return Format("host {} cannot be reached: {}", host, why);
  }
  if (const auto line = find([&](std::string_view l) { return l.starts_with("Executable:"); });
      line != lines.end()) {
    const auto node = find([&](std::string_view l) { return l.starts_with("Node:"); });
    return Format("host {} has no {}: install cuspan in the same directory on every host",
                  node == lines.end() ? "?" : node->substr(6), line->substr(12));
  }
  const auto first = find(
      [&](std::string_view line) { return !line.starts_with("---") && !line.starts_with("[["); });
  if (first == lines.end()) return "mpirun exited without a message";
  return Format("mpirun: {}", *first);
}

}  // namespace cuspan
