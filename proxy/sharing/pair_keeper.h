// Keeper of an MPS server: a separate process (`cuspan-proxy --keep-pair-server …`). It runs
// NVIDIA's control daemon in a pair folder, and ends it when no run needs it any more. It belongs
// to no run: the server continues after the end of the run that started it.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"

namespace cuspan::proxy {

// Parameters of a keeper, in the order of its command line.
struct PairKeeping {
  std::string folder;   // From PairFolder::PathFor.
  std::string table;    // Table of the runs sharing the GPU.
  std::string gpu;      // Value for CUDA_VISIBLE_DEVICES: GPU-… or MIG-….
  std::string control;  // Control program of the daemon.
};
inline constexpr const char* kKeepPairServer = "--keep-pair-server";

// Starts a keeper by executing `executable`, a cuspan-proxy. Waits until its server accepts
// clients. `lock` holds the keeper's lock; the keeper takes it over, so the caller must not use it
// afterwards. Call while the process has only one thread.
Status StartPairKeeper(const std::string& executable, const PairKeeping& keeping,
                       const PairFolder& lock);

// Main function of that process, with the arguments after --keep-pair-server. Returns its exit
// status. The process has to call _exit then: a thread may still be running.
int KeepPairServer(const std::vector<std::string>& words);

}  // namespace cuspan::proxy
