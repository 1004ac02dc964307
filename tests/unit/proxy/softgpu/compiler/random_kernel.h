// Random kernels whose results CUDA defines bit for bit: nested divergence,
// loops that lanes leave at different times, barriers in uniform code, warp
// collectives with full and computed masks, early exits, calls, local and shared
// memory, atomics. A kernel needs nothing but the driver API to run, so that its
// results can be compared between execution models and with a real GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuspan::softgpu {

struct RandomKernel {
  std::string ptx;  // A module with the kernel "k(.u64 input, .u64 output)".
  std::uint32_t grid = 1;
  std::uint32_t block[3] = {32, 1, 1};
  std::vector<std::uint32_t> input;  // Read only.
  std::uint32_t output_words = 0;    // The output starts as zeros.
};

// The kernel of a seed, always the same.
RandomKernel MakeRandomKernel(std::uint64_t seed);

// The kernel and what it wrote as a JSON object:
// {"seed", "grid", "block", "ptx", "input", "output"}.
std::string RandomKernelJson(std::uint64_t seed, const RandomKernel& kernel,
                             const std::vector<std::uint32_t>& output);

}  // namespace cuspan::softgpu
