// How often each instruction of a function runs, by the loops that it is in.
#pragma once

#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// How often what is in a loop is taken to run each time that the loop is come to, unless the loop
// counts to a number that is less.
inline constexpr double kLoopWeight = 32;
// Loops inside each other that count.
inline constexpr int kMaxLoopDepth = 4;

// For each instruction: the product of the weights of the loops around it; 0 for those that run
// only together with one of `rare`, as what only leads to it and what only comes behind it.
std::vector<double> RunWeights(const ptx::Body& body, const std::vector<bool>& rare);

}  // namespace cuspan::kernel_class
