#include "launcher/starter/looking.h"

#include "launcher/host/install_paths.h"
#include "launcher/run/run_key.h"

namespace cuspan {

Result<std::unique_ptr<AgentCluster>> StartLooking(const ClusterOptions& options,
                                                   const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(InstallPaths paths, InstallPaths::Find());
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Random());
  ClusterOptions looking = options;
  looking.wish.look = true;
  return AgentCluster::Start(looking, paths, key, signals);
}

}  // namespace cuspan
