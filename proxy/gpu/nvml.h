// What NVIDIA's management library tells of GPUs without a context on them.
#pragma once

#include <vector>

#include "structs.gen.h"

namespace cuspan::proxy {

// Fills in the free memory of GPUs, and which of them are parts of one (MIG), by their UUIDs, from
// libnvidia-ml.so.1. What it does not tell, or all where it is missing, stays as it is.
void AskNvml(std::vector<DeviceDescription>& devices);

}  // namespace cuspan::proxy
