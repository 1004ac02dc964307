// Open MPI's mpirun, with the behaviour of 4.1 and 5.0.
#pragma once

#include "launcher/starter/mpi_launcher.h"

namespace cuspan {

// Makes Open MPI's mpirun distinguish hosts by their full names, if one of `hosts` has a full name.
// Its default is to cut names at the first dot, so a.x and a.y would be one host.
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
  // Open MPI creates and removes /tmp/ompi.HOST.UID, common to all jobs of a user, without a lock
  // (its issue 8510). An mpirun or its daemon may fail if another job ends or starts at the same
  // moment.
  bool MayRetryStart(std::string_view output) const override;
  bool JobHasEnded(std::string_view output) const override;
  std::string Explain(std::string_view output, const Plan& plan) const override;
};

}  // namespace cuspan
