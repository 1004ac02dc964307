#include "launcher/starter/agent_command.h"

#include <algorithm>
#include <utility>

namespace cuspan {

std::vector<std::string> AgentPlanOptions(const Plan& plan, std::size_t agent) {
  std::vector<std::string> options = {"--serve", ServeText(plan.agents[agent].devices)};
  if (agent == 0 && plan.home_place != 0) {
    options.push_back("--place");
    options.push_back(std::to_string(plan.home_place));
  }
  return options;
}

std::vector<RankGroup> RanksOf(const Plan& plan, const AgentCommand& agent) {
  const auto path = [&agent](const std::string& host) {
    return host == kThisHost ? agent.path : agent.remote_path;
  };
  std::vector<RankGroup> groups;
  for (std::size_t i = 0; i < plan.agents.size(); ++i) {
    const std::string& host = plan.agents[i].host;
    std::vector<std::string> command = AgentPlanOptions(plan, i);
    command.insert(command.begin(), path(host));
    if (i == 0) command.insert(command.end(), agent.home_options.begin(), agent.home_options.end());
    groups.push_back({1, host, std::move(command)});
  }
  if (plan.lanes > 1)
    for (const AgentPlan& planned : plan.agents)
      groups.push_back({plan.lanes, planned.host, {path(planned.host)}});
  return groups;
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

std::string RemoteShellText(const ClusterOptions& options, const Environment& environment) {
  if (!options.remote_shell.empty()) return options.remote_shell;
  if (const auto chosen = environment.Get("OMPI_MCA_plm_rsh_agent"))
    return std::string(chosen->substr(0, chosen->find(':')));  // The first that Open MPI may take.
  // Nothing of ours has a terminal, so a question of ssh could not be answered.
  return "ssh -oBatchMode=yes -oConnectTimeout=10";
}

std::vector<std::string_view> OutputLines(std::string_view text) {
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

std::string NamedHost(std::string_view line, const Plan& plan) {
  std::string best;
  for (const AgentPlan& agent : plan.agents)
    if (agent.host.size() > best.size() && line.find(agent.host) != std::string_view::npos)
      best = agent.host;
  return best;
}

}  // namespace cuspan
