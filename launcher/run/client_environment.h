// The variables of a run in its program's environment.
#pragma once

#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/run_key.h"

namespace cuspan {

// Removes the variables of an outer `cuspan run`. CUSPAN_SOCKET stays, empty.
void StripOuterRun(Environment& environment);

// Sets the client library's variables, and no others: LD_PRELOAD, LD_LIBRARY_PATH, CUSPAN_SOCKET,
// CUSPAN_SECRET. Removes CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL: they were about this node's
// GPUs, and set again by the app's own scripts they are about the run's.
void AddClient(Environment& environment, const InstallPaths& paths, const RunKey& key);

}  // namespace cuspan
