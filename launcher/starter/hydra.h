// Hydra, the mpiexec of MPICH and of MPIs derived from it, with the behaviour of MPICH 4.0.
#pragma once

#include "launcher/starter/mpi_launcher.h"

namespace cuspan {

class Hydra final : public MpiLauncher {
 public:
  // `own_host` is the name of this host on other hosts.
  explicit Hydra(std::string own_host) : own_host_(std::move(own_host)) {}

  std::string_view name() const override { return "MPICH"; }
  std::vector<std::string> Command(const std::vector<RankGroup>& ranks,
                                   const std::vector<std::string>& extra,
                                   const std::vector<std::string>& variables) const override;
  Status CheckReach(const Environment&, const Plan&,
                    const std::vector<std::string>&) const override {
    return Status::Ok();
  }
  // The remote shell is called like rsh. In a batch job, Hydra starts its daemons through the batch
  // system.
  void AddSettings(Environment& environment, const Plan& plan,
                   const std::vector<std::string>& extra, const std::string& remote_shell,
                   bool root) const override;
  // Refused: MPICH has several network layers, each with different settings for this.
  Status Confine(Environment& environment, const std::vector<std::string>& networks,
                 const std::vector<std::string>& extra) const override;
  std::vector<Folder> Folders(const Environment&, std::string_view, unsigned, int) const override {
    return {};
  }
  bool MustPass(std::string_view variable) const override;
  std::string_view shared_memory() const override { return "mpich_shar_tmp"; }
  bool IsSharedMemoryOf(const std::string&, std::string_view) const override { return false; }
  bool MayRetryStart(std::string_view) const override { return false; }
  bool JobHasEnded(std::string_view output) const override;
  std::string Explain(std::string_view output, const Plan& plan) const override;

 private:
  const std::string own_host_;
};

}  // namespace cuspan
