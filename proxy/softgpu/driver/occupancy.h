// How many blocks of a kernel a multiprocessor holds, by the figures of limits.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proxy/softgpu/driver/module.h"

namespace cuspan::softgpu {

// Blocks of `threads` threads with so much dynamic shared memory that fit on one
// multiprocessor together; 0 when not even one does.
int BlocksPerProcessor(const KernelInfo& kernel, std::uint32_t threads, std::size_t dynamic_shared);

// The dynamic shared memory that each of `blocks` such blocks can have; nothing
// when so many do not fit.
std::optional<std::size_t> SharedForBlocks(const Function& function, int blocks,
                                           std::uint32_t threads);

}  // namespace cuspan::softgpu
