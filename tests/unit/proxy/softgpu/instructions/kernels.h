// Kernels and what they must write, from a file: random kernels that the software GPU ran.
#pragma once

#include <string>

#include "tests/unit/proxy/softgpu/instructions/gpu.h"

namespace cuspan::ptx_forms {

// Runs every kernel of `path` on `gpu` and compares with the results in the file, which has a JSON
// object on each line (what softgpu_random_test writes): "seed", "grid", "block" (three numbers),
// "ptx" (with a kernel "k(.u64 input, .u64 output)"), "input" and "output" (arrays of 32-bit
// words). Prints what differs and a summary; returns how many kernels differ or were refused, and
// 1 for a file without kernels. A line that is not of this form ends the process with a message.
unsigned RunKernels(Gpu& gpu, const std::string& path);

}  // namespace cuspan::ptx_forms
