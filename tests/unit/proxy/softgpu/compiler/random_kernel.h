// Random kernels with results defined by CUDA to the bit. They contain nested divergence, loops
// left by lanes at different times, and barriers in uniform code. They also contain warp
// collectives with full and computed masks, early exits, calls, local and shared memory, and
// atomics. They need only the driver API, so results can be compared between execution models and
// with a real GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuspan::softgpu {

struct RandomKernel {
  std::string ptx;  // A module with the kernel "k(.u64 input, .u64 output)".
  std::uint32_t grid = 1;
  std::uint32_t block[3] = {32, 1, 1};
  std::vector<std::uint32_t> input;  // Read-only.
  std::uint32_t output_words = 0;    // Words of the output, initially 0.
};

// Makes the kernel of a seed, always the same.
RandomKernel MakeRandomKernel(std::uint64_t seed);

// The kernel and its output as a JSON object: {"seed", "grid", "block", "ptx", "input", "output"}.
std::string RandomKernelJson(std::uint64_t seed, const RandomKernel& kernel,
                             const std::vector<std::uint32_t>& output);

}  // namespace cuspan::softgpu
