// What an MPI's command that starts a run's agents is told, and what its output means when it
// fails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"
#include "launcher/run/plan.h"
#include "launcher/starter/agent_command.h"

namespace cuspan {

// Pure: nothing is started, and nothing looked up.
class MpiLauncher {
 public:
  virtual ~MpiLauncher() = default;

  // As users know it.
  virtual std::string_view name() const = 0;

  // The whole command line. `extra` are the user's additional arguments; `variables` those passed
  // to ranks on other hosts, by name, since others may read a command line.
  virtual std::vector<std::string> Command(const std::vector<RankGroup>& ranks,
                                           const std::vector<std::string>& extra,
                                           const std::vector<std::string>& variables) const = 0;

  // kInvalid when the environment, and no option, keeps it on this host, and agents are to run on
  // others.
  virtual Status CheckReach(const Environment& environment, const Plan& plan,
                            const std::vector<std::string>& extra) const = 0;

  // kInvalid when it would take another host of the plan for this one, whose name is `own_name`.
  virtual Status CheckNames(const Plan&, std::string_view) const { return Status::Ok(); }

  // Completes its environment: the network layers (unless the user chose), permission to run as
  // root, and a way to other hosts, `remote_shell` if that is not empty, that asks nothing and
  // gives up soon.
  virtual void AddSettings(Environment& environment, const Plan& plan,
                           const std::vector<std::string>& extra, const std::string& remote_shell,
                           bool root) const = 0;

  // Keeps what it sends to other hosts in these networks ("10.8.0.0/24"). kInvalid says what the
  // user has chosen that goes another way.
  virtual Status Confine(Environment& environment, const std::vector<std::string>& networks,
                         const std::vector<std::string>& extra) const = 0;

  // Whether a variable is of this MPI or its network layers, and ranks on other hosts have it only
  // if it is passed by name.
  virtual bool MustPass(std::string_view variable) const = 0;

  // Where one of that process id on this host may keep its temporary files, which stay when it is
  // killed. `environment` is its own.
  struct Folder {
    std::string path;
    bool in_own = false;  // The folder in which it lies is this MPI's as well.
  };
  virtual std::vector<Folder> Folders(const Environment& environment, std::string_view host,
                                      unsigned user, int pid) const = 0;
  // What its shared memory in /dev/shm begins with.
  virtual std::string_view shared_memory() const = 0;
  // True if a file of that name in /dev/shm is of the job whose temporary files are in `folder`, as
  // Folders names it. Reads what is there.
  virtual bool IsSharedMemoryOf(const std::string& folder, std::string_view name) const = 0;

  // Whether it ended before it started anything for a reason that the next try does not meet.
  virtual bool MayStartAgain(std::string_view output) const = 0;
  // Whether it has said that its processes have ended, or that it has no space for what they need
  // to start: it is about to end as well, or hangs.
  virtual bool JobHasEnded(std::string_view output) const = 0;
  // One sentence from its output when it failed: which host, and why.
  virtual std::string Explain(std::string_view output, const Plan& plan) const = 0;
};

// The one of the MPI that this cuspan's agents are built with.
const MpiLauncher& OwnMpiLauncher();

}  // namespace cuspan
