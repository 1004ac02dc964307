// Variables of a run in its program's environment.
#pragma once

#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/run_key.h"

namespace cuspan {

// Removes the variables of an outer `cuspan run`. CUSPAN_SOCKET stays, empty.
void StripOuterRun(Environment& environment);

// Variable that names the settings of cuFile. Some programs use cuFile only if they are there.
inline constexpr const char* kCufileSettings = "CUFILE_ENV_PATH_JSON";

// Sets the client library's variables only: LD_PRELOAD, LD_LIBRARY_PATH, CUSPAN_SOCKET,
// CUSPAN_SECRET, and kCufileSettings if neither the user nor the node has such settings. Removes
// CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL: they described this node's GPUs. If the program's
// scripts set them again, they refer to the run's.
void AddClient(Environment& environment, const InstallPaths& paths, const RunKey& key);

}  // namespace cuspan
