// Choice of the run's devices visible to a process. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "common/status.h"
#include "structs.gen.h"

namespace cuspan {

struct VisibleChoice {
  // Numbers in the run, in the process's order.
  std::vector<std::uint32_t> devices;
  // Reason if there are no devices, as a CUresult.
  std::int32_t result = 0;
};

// If each rank of an MPI program has devices of its own, a rank sees only these; kRefused if the
// run has none left for it. CUDA_VISIBLE_DEVICES then chooses among them (common/visible_list.h).
Result<VisibleChoice> ChooseVisible(std::span<const DeviceDescription> devices,
                                    const VisibleDevices& visible);

}  // namespace cuspan
