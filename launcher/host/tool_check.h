// Detection of NVIDIA tools that observe CUDA from inside NVIDIA's driver: compute-sanitizer,
// Nsight Compute, NVBit's tools and others. The program of a run does not have this driver.
#pragma once

#include <string>
#include <vector>

#include "launcher/host/environment.h"

namespace cuspan {

// One sentence for the user if the command is one of these tools, or the environment loads one into
// the program; else empty.
std::string WarnOfTool(const std::vector<std::string>& command, const Environment& environment);

}  // namespace cuspan
