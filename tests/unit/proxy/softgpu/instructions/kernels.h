// Runs kernels from a file with their expected output: random kernels already run on the software
// GPU.
#pragma once

#include <string>

#include "tests/unit/proxy/softgpu/instructions/gpu.h"

namespace cuspan::ptx_forms {

// Runs every kernel of `path` on `gpu` and compares with the results in the file, written by
// softgpu_random_test. Each line is a JSON object: "seed", "grid", "block" (three numbers), "ptx"
// (with a kernel "k(.u64 input, .u64 output)"), "input" and "output" (arrays of 32-bit words).
// Prints the differences and a summary. Returns the number of kernels differing or refused even
// without the driver's optimiser, or 1 for a file without kernels. A malformed line ends the
// process with a message.
unsigned RunKernels(Gpu& gpu, const std::string& path);

}  // namespace cuspan::ptx_forms
