#include "launcher/agent/other_agents.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "launcher/mpirun_command.h"
#include "launcher/process_fd.h"
#include "launcher/wait_status.h"

namespace cuspan {
namespace {

// The settings of the run and what UCX shall use are the same on all hosts.
std::vector<std::string> SettingsOf(const Environment& environment) {
  std::vector<std::string> settings;
  for (const std::string& entry : environment.entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool secret =
        name == RunKey::kVariable || name == "CUSPAN_SOCKET" || name == "CUSPAN_SECRET";
    if ((name.starts_with("CUSPAN_") && !secret) || name.starts_with("UCX_"))
      settings.push_back(entry);
  }
  return settings;
}

// The input of a child: the key, and then nothing more.
Result<UniqueFd> KeyAsInput(const RunKey& key) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const std::string line = key.Text() + "\n";
  // A pipe takes that much at once.
  if (::write(write_end.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return Status::Internal("a pipe takes no key: {}", std::strerror(errno));
  return read_end;
}

Result<pid_t> Spawn(const std::vector<std::string>& command, const UniqueFd& input) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(input.get(), STDIN_FILENO);
  ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  ::execvp(arguments[0], arguments.data());
  const std::string_view parts[] = {"cuspan: starting ", arguments[0],
                                    " failed: ", std::strerror(errno), "\n"};
  for (const std::string_view part : parts)
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  ::_exit(127);
}

}  // namespace

Result<OtherAgents> OtherAgents::Start(std::span<const AgentPlan> agents, const RemoteShell& shell,
                                       std::span<const std::string> options,
                                       const Environment& environment, const RunKey& key) {
  OtherAgents started;
  const std::vector<std::string> settings = SettingsOf(environment);
  for (std::size_t i = 0; i < agents.size(); ++i) {
    Child child;
    child.host = agents[i].host;
    child.remote = child.host != kThisHost;
    std::vector<std::string> agent = {child.remote ? shell.agent : shell.own_agent, "--rank",
                                      std::to_string(i + 1), "--serve",
                                      ServeText(agents[i].devices)};
    agent.insert(agent.end(), options.begin(), options.end());
    std::vector<std::string> command = agent;
    if (child.remote) {
      agent.insert(agent.begin(), settings.begin(), settings.end());
      agent.insert(agent.begin(), "env");
      command = shell.command;
      command.insert(command.end(), {child.host, QuoteForShell(agent)});
    }
    CUSPAN_ASSIGN_OR_RETURN(const UniqueFd input, KeyAsInput(key));
    CUSPAN_ASSIGN_OR_RETURN(child.pid, Spawn(command, input));
    child.process = OpenProcess(child.pid);
    started.fds_.push_back(child.process.get());
    started.children_.push_back(std::move(child));
    if (started.fds_.back() < 0) return Status::Exhausted("pidfd_open: {}", std::strerror(errno));
  }
  return started;
}

OtherAgents::~OtherAgents() {
  for (const Child& child : children_) {
    if (child.pid <= 0) continue;
    ::kill(child.pid, SIGTERM);
    ::waitpid(child.pid, nullptr, 0);
  }
}

std::string OtherAgents::ExplainEnd() {
  for (Child& child : children_) {
    int status = 0;
    if (child.pid <= 0 || ::waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.pid = -1;
    return child.remote ? Format(
                              "the agent on host {} could not be started, or has ended: the "
                              "remote shell {}",
                              child.host, DescribeExit(status))
                        : Format("the agent {}", DescribeExit(status));
  }
  return "";
}

}  // namespace cuspan
