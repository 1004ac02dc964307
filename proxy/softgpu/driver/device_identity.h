// Identity of a host's software GPUs, independent of the devices visible to a process.
#pragma once

#include <cuda.h>

#include <vector>

#include "common/status.h"

namespace cuspan::softgpu {

// PCI addresses of software GPUs have their own domain.
inline constexpr int kPciDomain = 0xc0;
constexpr int PciBus(int number) { return number + 1; }

// UUID of the host's device `number`; equal in all processes of the host.
CUuuid Uuid(int number);

// Returns the devices visible to this process, of the host's `devices`: all, or with
// CUSPAN_SOFT_VISIBLE=chosen those of CUDA_VISIBLE_DEVICES. Returns kNotFound if none is left,
// kRefused if one is listed twice, and kInvalid for a wrong setting.
Result<std::vector<int>> VisibleDevices(int devices);

}  // namespace cuspan::softgpu
