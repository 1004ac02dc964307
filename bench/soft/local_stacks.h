// Computations with a stack in local memory, with different control flow in each thread. The code
// is common to kernels and plain C++.
#pragma once

#include <cstdint>

#include "bench/common/both_sides.h"

namespace cuspan::bench::soft {

enum { kPlacedQueens = 3, kDeepestQueens = 256, kMachineBytes = 256, kMachineStack = 256 };

// Number of ways to place queens on a board of `size` rows. The digits of `start` give the first
// kPlacedQueens rows.
CUSPAN_BENCH_BOTH std::uint32_t CountWays(std::uint32_t size, std::uint32_t start) {
  std::uint32_t columns[kDeepestQueens], left[kDeepestQueens], right[kDeepestQueens],
      open[kDeepestQueens];
  const std::uint32_t all = (1U << size) - 1;
  std::uint32_t taken = 0, to_left = 0, to_right = 0, found = 0;
  for (int row = 0; row < kPlacedQueens; ++row, start /= size) {
    const std::uint32_t queen = 1U << (start % size);
    if (((taken | to_left | to_right) & queen) != 0) return 0;
    taken |= queen;
    to_left = (to_left | queen) << 1 & all;
    to_right = (to_right | queen) >> 1;
  }
  int row = kPlacedQueens;
  columns[row] = taken, left[row] = to_left, right[row] = to_right;
  open[row] = all & ~(taken | to_left | to_right);
  while (row >= kPlacedQueens) {
    const std::uint32_t queen = open[row] & (0U - open[row]);
    if (queen == 0) {
      --row;
      continue;
    }
    open[row] ^= queen;
    if (row == static_cast<int>(size) - 1) {
      ++found;
      continue;
    }
    columns[row + 1] = columns[row] | queen;
    left[row + 1] = (left[row] | queen) << 1;
    right[row + 1] = (right[row] | queen) >> 1;
    ++row;
    open[row] = all & ~(columns[row] | left[row] | right[row]);
  }
  return found;
}

// Runs a program of kMachineBytes bytes, one per instruction, for `steps` steps.
CUSPAN_BENCH_BOTH std::uint32_t RunMachine(const std::uint8_t* program, int steps,
                                           std::uint32_t sum) {
  std::uint32_t stack[kMachineStack];
  std::uint32_t top = 0, at = 0;
  for (std::uint32_t k = 0; k < kMachineStack; ++k) stack[k] = k;
  for (int step = 0; step < steps; ++step) {
    const std::uint8_t code = program[at];
    at = (at + 1) % kMachineBytes;
    switch (code % 8) {
      case 0:
        top = (top + 1) % kMachineStack, stack[top] = code;
        break;
      case 1:
        stack[top] += sum;
        break;
      case 2:
        stack[top] = stack[top] * 1664525U + code;
        break;
      case 3:
        sum ^= stack[top], top = (top + kMachineStack - 1) % kMachineStack;
        break;
      case 4:
        if ((stack[top] & 1) != 0) at = code / 4;
        break;
      case 5:
        stack[(top + code) % kMachineStack] ^= sum;
        break;
      case 6:
        sum += stack[(top + sum) % kMachineStack];
        break;
      default:
        sum = sum << 5 | sum >> 27;
        break;
    }
  }
  return sum;
}

}  // namespace cuspan::bench::soft
