// Which of the run's devices a process sees. Pure.
#pragma once

#include <span>
#include <vector>

#include "common/status.h"
#include "structs.gen.h"

namespace cuspan {

struct VisibleChoice {
  // Numbers in the run, in the order in which the process counts them.
  std::vector<std::uint32_t> devices;
  // Of the driver (CUresult): why there is none.
  std::int32_t result = 0;
};

// A rank of an MPI program that has devices of its own sees those; kRefused when the run has none
// for it. Of these CUDA_VISIBLE_DEVICES chooses as the CUDA C++ Programming Guide says: numbers, or
// beginnings of GPU-… and MIG-… identifiers, separated by commas; what is not there ends the list.
// As the driver does it (580.159): the first entry says which of the two kinds the list is of, one
// of the other kind ends it, and a device that is there twice before the end is
// CUDA_ERROR_INVALID_DEVICE.
Result<VisibleChoice> ChooseVisible(std::span<const DeviceDescription> devices,
                                    const VisibleDevices& visible);

}  // namespace cuspan
