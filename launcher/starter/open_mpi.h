// Open MPI's mpirun, as 4.1 and 5.0 behave.
#pragma once

#include "launcher/starter/mpi_launcher.h"

namespace cuspan {

// Has an mpirun of Open MPI tell hosts apart by their full names, if one of `hosts` has a full
// name: by itself it cuts each at the first dot, and takes a.x and a.y for one host.
void KeepFullHostNames(const std::vector<std::string>& hosts, Environment& environment);

class OpenMpi final : public MpiLauncher {
 public:
  std::string_view name() const override { return "Open MPI"; }
  std::vector<std::string> Command(const std::vector<RankGroup>& ranks,
                                   const std::vector<std::string>& extra,
                                   const std::vector<std::string>& variables) const override;
  Status CheckReach(const Environment& environment, const Plan& plan,
                    const std::vector<std::string>& extra) const override;
  Status CheckNames(const Plan& plan, std::string_view own_name) const override;
  void AddSettings(Environment& environment, const Plan& plan,
                   const std::vector<std::string>& extra, const std::string& remote_shell,
                   bool root) const override;
  Status Confine(Environment& environment, const std::vector<std::string>& networks,
                 const std::vector<std::string>& extra) const override;
  std::vector<Folder> Folders(const Environment& environment, std::string_view host, unsigned user,
                              int pid) const override;
  bool MustPass(std::string_view) const override { return false; }
  std::string_view shared_memory() const override { return "vader_segment."; }
  bool IsSharedMemoryOf(const std::string& folder, std::string_view name) const override;
  // One, or its daemon on another host, may end because another one's end took away the folder that
  // all of a user's share, or made it at the same moment: it makes and removes /tmp/ompi.HOST.UID
  // without a lock (its issue 8510).
  bool MayStartAgain(std::string_view output) const override;
  bool JobHasEnded(std::string_view output) const override;
  std::string Explain(std::string_view output, const Plan& plan) const override;
};

}  // namespace cuspan
