// Which of the run's devices a process sees. Pure.
#pragma once

#include <span>
#include <vector>

#include "common/status.h"
#include "protocol/api/types.h"

namespace cuspan {

// Their numbers in the run, in the order in which the process counts them.
//
// A rank of an MPI program that has devices of its own sees those; kRefused when the run has none
// for it. Of these CUDA_VISIBLE_DEVICES chooses as the CUDA C++ Programming Guide says: numbers, or
// beginnings of GPU-… and MIG-… identifiers, separated by commas; what is not there, or there
// twice, ends the list.
Result<std::vector<std::uint32_t>> ChooseVisible(std::span<const DeviceDescription> devices,
                                                 const VisibleDevices& visible);

}  // namespace cuspan
