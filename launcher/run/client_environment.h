// What a run puts into the environment of its program.
#pragma once

#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/run_key.h"

namespace cuspan {

// Removes what an outer `cuspan run` put there for its app. CUSPAN_SOCKET stays, empty.
void StripOuterRun(Environment& environment);

// What the client library needs in the app's environment, and nothing else: LD_PRELOAD,
// LD_LIBRARY_PATH, CUSPAN_SOCKET, CUSPAN_SECRET. CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL, which
// were about this node's GPUs, go: what the app's own scripts set is about the run's.
void AddClient(Environment& environment, const InstallPaths& paths, const RunKey& key);

}  // namespace cuspan
