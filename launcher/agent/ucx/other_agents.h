// The agents on the other hosts of a run, as the head agent starts them where no MPI does: each by
// a remote shell, on this host without.
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
  std::vector<std::string> command;  // Called as ssh is: with a host, and a command for its shell.
  std::string agent;                 // The path of cuspan-agent there.
  std::string own_agent;             // The one here.
};

// What such an agent reads first from its input.
struct Invitation {
  RunKey key;
  std::vector<net::Address> places;  // Of the head agent, the best first.

  std::string Text() const;
  // kInvalid for what Text does not write.
  static Result<Invitation> Read(std::istream& input);
};

// One thread. Destroying it waits a little, and ends those that still run.
class OtherAgents {
 public:
  // `places`: where this process listens for them; `options`: for all of them; `environment`: of
  // this process, whose settings they get. Key and places go through their input: command lines are
  // for everybody to read. What they and the shell write is kept until PassOnOutput.
  static Result<OtherAgents> Start(std::span<const AgentPlan> agents, const RemoteShell& shell,
                                   std::span<const net::Address> places,
                                   std::span<const std::string> options,
                                   const Environment& environment, const RunKey& key);
  OtherAgents(OtherAgents&&) = default;
  ~OtherAgents();

  // Readable when its process, or the shell that has started it, has ended.
  const std::vector<int>& fds() const { return fds_; }
  // Of each that has ended, or ends within a moment: which host, how, and its last words. Empty
  // when none has.
  std::string ExplainEnd();
  // From now on what they and the shells write goes where this process writes.
  void PassOnOutput() { output_->PassOn(); }

 private:
  struct Child {
    std::string host;
    bool remote = false;
    pid_t pid = -1;
    UniqueFd process;
  };
  OtherAgents() = default;

  std::unique_ptr<HostsOutput> output_;  // One a child; after them it ends.
  std::vector<Child> children_;
  std::vector<int> fds_;
};

}  // namespace cuspan
