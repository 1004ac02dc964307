// Tools of NVIDIA's that observe a program's CUDA from inside NVIDIA's driver, which a program of a
// run does not have: compute-sanitizer, Nsight Compute, NVBit's tools and others.
#pragma once

#include <string>
#include <vector>

#include "launcher/host/environment.h"

namespace cuspan {

// One sentence for the user if the run's command is such a tool, or the environment makes one part
// of the program; empty for others.
std::string WarnOfTool(const std::vector<std::string>& command, const Environment& environment);

}  // namespace cuspan
