// The keeper of an MPS server: a process of its own (`cuspan-proxy --keep-pair-server …`) that runs
// NVIDIA's control daemon in a pair folder, and ends it when no run needs it any more. It belongs
// to no run, so that the server outlives the run whose process needed it first.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"

namespace cuspan::proxy {

// What a keeper is told. On its command line in this order.
struct PairKeeping {
  std::string folder;   // Of PairFolder::PathFor.
  std::string table;    // Of the runs that share the GPU.
  std::string gpu;      // As CUDA_VISIBLE_DEVICES names it: GPU-… or MIG-….
  std::string control;  // The program of the daemon.
};
inline constexpr const char* kKeepPairServer = "--keep-pair-server";

// Starts a keeper, which becomes `executable`, a cuspan-proxy, and waits until its server takes
// clients. `lock` has the keeper's part, and is an open file that nobody uses afterwards: the
// keeper takes it over. To be called while the process has one thread.
Status StartPairKeeper(const std::string& executable, const PairKeeping& keeping,
                       const PairFolder& lock);

// What that process does, with the words behind --keep-pair-server; its exit status. The process
// has to end by _exit then: a thread may go on.
int KeepPairServer(const std::vector<std::string>& words);

}  // namespace cuspan::proxy
