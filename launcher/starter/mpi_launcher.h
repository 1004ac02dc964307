// Command of an MPI for starting a run's agents, and interpretation of its output after a failure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"
#include "launcher/run/plan.h"
#include "launcher/starter/agent_command.h"

namespace cuspan {

// Pure except where noted: starts no process.
class MpiLauncher {
 public:
  virtual ~MpiLauncher() = default;

  // Name for users.
  virtual std::string_view name() const = 0;

  // Whole command line. `extra` are the user's additional arguments. `variables` are passed to
  // ranks on other hosts by name only, since other users can read a command line.
  virtual std::vector<std::string> Command(const std::vector<RankGroup>& ranks,
                                           const std::vector<std::string>& extra,
                                           const std::vector<std::string>& variables) const = 0;

  // kInvalid if the environment, without an overriding option, limits it to this host, but the plan
  // has agents on others.
  virtual Status CheckReach(const Environment& environment, const Plan& plan,
                            const std::vector<std::string>& extra) const = 0;

  // kInvalid if it would mistake another host of the plan for this one, named `own_name`.
  virtual Status CheckNames(const Plan&, std::string_view) const { return Status::Ok(); }

  // Completes its environment: the network layers (unless chosen by the user), permission to run as
  // root, and access to other hosts. This access asks no questions and fails soon; it is
  // `remote_shell` if not empty.
  virtual void AddSettings(Environment& environment, const Plan& plan,
                           const std::vector<std::string>& extra, const std::string& remote_shell,
                           bool root) const = 0;

  // Restricts its traffic between hosts to these networks ("10.8.0.0/24"). kInvalid names a
  // conflicting choice of the user.
  virtual Status Confine(Environment& environment, const std::vector<std::string>& networks,
                         const std::vector<std::string>& extra) const = 0;

  // True for a variable of this MPI or its network layers that must be passed by name to reach
  // ranks on other hosts.
  virtual bool MustPass(std::string_view variable) const = 0;

  // Possible folders of temporary files of the process `pid` on this host; they remain if it is
  // killed. `environment` is the process's.
  struct Folder {
    std::string path;
    bool in_own = false;  // The parent folder is this MPI's as well.
  };
  virtual std::vector<Folder> Folders(const Environment& environment, std::string_view host,
                                      unsigned user, int pid) const = 0;
  // Prefix of its shared memory's names in /dev/shm.
  virtual std::string_view shared_memory() const = 0;
  // True if this name in /dev/shm belongs to the job with temporary files in `folder` (see
  // Folders). Reads files there.
  virtual bool IsSharedMemoryOf(const std::string& folder, std::string_view name) const = 0;

  // True if it ended before it started any process, for a reason that will not recur.
  virtual bool MayRetryStart(std::string_view output) const = 0;
  // True if its output shows that its processes have ended, or lack space to start. It is then
  // about to end as well, or hangs.
  virtual bool JobHasEnded(std::string_view output) const = 0;
  // One sentence from its output after a failure: the host and the reason.
  virtual std::string Explain(std::string_view output, const Plan& plan) const = 0;
};

// Launcher of the MPI used to build this cuspan's agents.
const MpiLauncher& OwnMpiLauncher();

}  // namespace cuspan
