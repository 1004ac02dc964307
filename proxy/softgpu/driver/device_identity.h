// What tells the software GPUs of a host apart, whichever of them a process sees.
#pragma once

#include <cuda.h>

#include <vector>

#include "common/status.h"

namespace cuspan::softgpu {

// Where real devices have PCI addresses, these have ones in a domain of their own.
inline constexpr int kPciDomain = 0xc0;
constexpr int PciBus(int number) { return number + 1; }

// Of the host's device `number`; the same in all processes of the host.
CUuuid Uuid(int number);

// The host's devices that this process sees, of `devices`: all, or with CUSPAN_SOFT_VISIBLE=chosen
// as CUDA_VISIBLE_DEVICES says. kNotFound when there is none, kRefused when one is there twice,
// kInvalid for a wrong setting.
Result<std::vector<int>> VisibleDevices(int devices);

}  // namespace cuspan::softgpu
