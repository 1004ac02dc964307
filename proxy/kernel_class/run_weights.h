// Relative execution counts of a function's instructions, from its loops.
#pragma once

#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// Assumed iterations of a loop, unless it counts up to a smaller constant.
inline constexpr double kLoopWeight = 32;
// Maximum nesting depth of loops counted.
inline constexpr int kMaxLoopDepth = 4;

// Returns, for each instruction, the product of the weights of its loops. The weight is 0 if it
// runs only together with one of `rare`, before or after it.
std::vector<double> RunWeights(const ptx::Body& body, const std::vector<bool>& rare);

}  // namespace cuspan::kernel_class
