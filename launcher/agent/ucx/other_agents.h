// Agents on the other hosts of a run without MPI, started by the head agent: by a remote shell, or
// directly on its own host.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/ucx/hosts_output.h"
#include "launcher/host/environment.h"
#include "launcher/run/plan.h"
#include "launcher/run/run_key.h"
#include "protocol/network/sockets.h"

namespace cuspan {

struct RemoteShell {
  std::vector<std::string> command;  // Called like ssh: host, then shell command.
  std::string agent;                 // Path of cuspan-agent there.
  std::string own_agent;             // Path of cuspan-agent here.
};

// First line of a started agent's input.
struct Invitation {
  RunKey key;
  std::vector<net::Address> places;  // Addresses of the head agent, best first.

  std::string Text() const;
  // kInvalid if the line was not made by Text.
  static Result<Invitation> Read(std::istream& input);
};

// Threads: one. The destructor waits briefly, then kills agents still running.
class OtherAgents {
 public:
  // `places`: addresses on which this process listens. `options`: for all agents. `environment`: of
  // this process, the source of their settings. Key and addresses are sent over their standard
  // input, since other users can read command lines. Output of agents and shells is kept until
  // PassOnOutput.
  static Result<OtherAgents> Start(std::span<const AgentPlan> agents, const RemoteShell& shell,
                                   std::span<const net::Address> places,
                                   std::span<const std::string> options,
                                   const Environment& environment, const RunKey& key);
  OtherAgents(OtherAgents&&) = default;
  ~OtherAgents();

  // Each is readable when the agent's process, or its remote shell, has ended.
  const std::vector<int>& fds() const { return fds_; }
  // Describes the agents ended by now or within a moment: host, exit status and last output. Empty
  // if none has ended.
  std::string ExplainEnd();
  // Writes the output of agents and shells to this process's own output from now on.
  void PassOnOutput() { output_->PassOn(); }

 private:
  struct Child {
    std::string host;
    bool remote = false;
    pid_t pid = -1;
    UniqueFd process;
  };
  OtherAgents() = default;

  std::unique_ptr<HostsOutput> output_;  // One pipe a child; destroyed after them.
  std::vector<Child> children_;
  std::vector<int> fds_;
};

}  // namespace cuspan
