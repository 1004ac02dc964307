// NVIDIA's MPS for one user's runs sharing a GPU in pairs (`--share=pair`). Their proxies are
// clients of one MPS server, so their kernels run on the GPU at the same time.
//
// There is one server for each GPU and user, in a private folder (protocol/sharing/pair_folder.h).
// The first proxy starts it together with a keeper (pair_keeper.h). The keeper ends it after the
// last run.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"
#include "proxy/streams/faults.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// One client of the server; leaves it in the destructor. Threads: one.
class PairServer {
 public:
  struct Request {
    std::string table;       // Path of the table of runs sharing the GPU.
    std::string gpu;         // Value for CUDA_VISIBLE_DEVICES: GPU-… or MIG-….
    std::string executable;  // Path of cuspan-proxy, for starting a keeper.
  };
  // Waits until the GPU's server accepts clients, for at most 30 s; starts one if necessary. Call
  // while the process has only one thread. The server stays while this object exists, or a run in
  // pairs is in the table.
  static Result<std::unique_ptr<PairServer>> Join(const Request& wanted);
  PairServer(const PairServer&) = delete;

  // Sets environment variables of this process: the server's location, and the run's part of the
  // GPU. After that only this GPU is visible, with ordinal 0. Call before the driver is loaded,
  // while the process has only one thread.
  void SetEnvironment(const ShareTerms& terms) const;

  // Call before ending a process with kernels possibly still running. Otherwise MPS treats its end
  // as a fault, and ends the other clients, too (measured with driver 580). Ends the kernels and
  // this process's contexts. Takes some tens of ms, at most 1.5 s. Threads: any, also while others
  // are in the driver.
  void Leave() const;

 private:
  PairServer(PairFolder folder, std::string gpu)
      : folder_(std::move(folder)), gpu_(std::move(gpu)) {}

  PairFolder folder_;
  const std::string gpu_;
};

// MPS reports a client's fault to all clients, without its origin. If this session had no work on
// the GPU (`had_work`), the fault was another's.
FaultExplanation ExplainPairFault(CUresult result, bool had_work);

}  // namespace cuspan::proxy
