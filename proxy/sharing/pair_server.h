// NVIDIA's MPS for the runs of one user that share a GPU in pairs (`--share=pair`): their proxies
// are clients of one MPS server, so that their kernels are on the GPU at the same time.
//
// Each GPU has a server of its own for each user, in a private folder
// (protocol/sharing/pair_folder.h). The first proxy that needs it starts it, with a keeper
// (pair_keeper.h) that ends it after the last run.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"
#include "proxy/streams/faults.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// One client's part in it, which ends with the object. One thread.
class PairServer {
 public:
  struct Wanted {
    std::string table;       // Of the runs that share the GPU, where it lies.
    std::string gpu;         // As CUDA_VISIBLE_DEVICES names it: GPU-… or MIG-….
    std::string executable;  // A cuspan-proxy, which can become the keeper.
  };
  // Waits until the GPU's server takes clients, for half a minute at most; starts it where there is
  // none. To be called while the process has one thread. It stays as long as this object or such a
  // run in the table.
  static Result<std::unique_ptr<PairServer>> Join(const Wanted& wanted);
  PairServer(const PairServer&) = delete;

  // By what the driver finds the server, and how much of the GPU the run gets: variables of this
  // process's environment. The GPU is the only one then, with ordinal 0. To be called before the
  // driver is loaded, while the process has one thread.
  void SetEnvironment(const ShareTerms& terms) const;

  // To be called before a process ends whose kernels may still run: MPS takes its end for a fault
  // of theirs, which ends the other clients, too (measured with driver 580). Ends the kernels and
  // this process's contexts. Takes some tens of milliseconds, 1.5 s at most. Any
  // thread, while others may be in the driver.
  void Leave() const;

 private:
  PairServer(PairFolder folder, std::string gpu)
      : folder_(std::move(folder)), gpu_(std::move(gpu)) {}

  PairFolder folder_;
  const std::string gpu_;
};

// MPS tells all clients of a fault of one, and not whose it was. Without `had_work`, work of its
// own that the session had on the GPU, it was another's.
FaultExplanation ExplainPairFault(CUresult result, bool had_work);

}  // namespace cuspan::proxy
