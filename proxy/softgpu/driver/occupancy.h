// Blocks of a kernel per multiprocessor, computed from limits.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proxy/softgpu/driver/module.h"

namespace cuspan::softgpu {

// Blocks of `threads` threads with this dynamic shared memory fitting on one multiprocessor
// together; 0 if none fits.
int BlocksPerProcessor(const KernelInfo& kernel, std::uint32_t threads, std::size_t dynamic_shared);

// Dynamic shared memory available to each of `blocks` blocks; nullopt if they do not fit.
std::optional<std::size_t> SharedForBlocks(const Function& function, int blocks,
                                           std::uint32_t threads);

}  // namespace cuspan::softgpu
