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
// for it. Of these CUDA_VISIBLE_DEVICES chooses (common/visible_list.h).
Result<VisibleChoice> ChooseVisible(std::span<const DeviceDescription> devices,
                                    const VisibleDevices& visible);

}  // namespace cuspan
