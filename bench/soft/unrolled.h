// Computations of one thread in registers, with all loops unrolled. The code is common to kernels
// and plain C++. Elements of problem i are `count` apart, the best layout for kernels.
#pragma once

#include <cstddef>

#include "bench/common/both_sides.h"

namespace cuspan::bench::soft {

inline constexpr int kSmallSystem = 6, kLargeSystem = 16, kPointsOfThread = 32;

// Solves `matrix` x = `right` with kSize equations by elimination without pivots.
template <int kSize>
CUSPAN_BENCH_BOTH void SolveSystem(const float* matrix, const float* right, float* x,
                                   std::size_t count, std::size_t i) {
  float a[kSize][kSize], b[kSize];
  CUSPAN_BENCH_UNROLL
  for (int row = 0; row < kSize; ++row) {
    CUSPAN_BENCH_UNROLL
    for (int column = 0; column < kSize; ++column)
      a[row][column] = matrix[(row * kSize + column) * count + i];
    b[row] = right[row * count + i];
  }
  CUSPAN_BENCH_UNROLL
  for (int pivot = 0; pivot < kSize; ++pivot) {
    const float scale = 1.0f / a[pivot][pivot];
    CUSPAN_BENCH_UNROLL
    for (int row = pivot + 1; row < kSize; ++row) {
      const float factor = a[row][pivot] * scale;
      CUSPAN_BENCH_UNROLL
      for (int column = pivot + 1; column < kSize; ++column)
        a[row][column] -= factor * a[pivot][column];
      b[row] -= factor * b[pivot];
    }
  }
  CUSPAN_BENCH_UNROLL
  for (int row = kSize - 1; row >= 0; --row) {
    CUSPAN_BENCH_UNROLL
    for (int column = row + 1; column < kSize; ++column) b[row] -= a[row][column] * b[column];
    b[row] /= a[row][row];
    x[row * count + i] = b[row];
  }
}

// Fourier transform of kPointsOfThread points (x, y), without reordering them. turns[2 k] and
// turns[2 k + 1] are cos and sin of -2 pi k / kPointsOfThread.
CUSPAN_BENCH_BOTH void TransformPoints(const float* input, const float* turns, float* output,
                                       std::size_t count, std::size_t i) {
  float x[kPointsOfThread], y[kPointsOfThread];
  CUSPAN_BENCH_UNROLL
  for (int k = 0; k < kPointsOfThread; ++k) {
    x[k] = input[2 * k * count + i];
    y[k] = input[(2 * k + 1) * count + i];
  }
  CUSPAN_BENCH_UNROLL
  for (int half = kPointsOfThread / 2; half >= 1; half /= 2) {
    CUSPAN_BENCH_UNROLL
    for (int base = 0; base < kPointsOfThread; base += 2 * half) {
      CUSPAN_BENCH_UNROLL
      for (int k = 0; k < half; ++k) {
        const int low = base + k, high = base + k + half, turn = k * (kPointsOfThread / 2 / half);
        const float apart_x = x[low] - x[high], apart_y = y[low] - y[high];
        x[low] += x[high];
        y[low] += y[high];
        x[high] = apart_x * turns[2 * turn] - apart_y * turns[2 * turn + 1];
        y[high] = apart_x * turns[2 * turn + 1] + apart_y * turns[2 * turn];
      }
    }
  }
  CUSPAN_BENCH_UNROLL
  for (int k = 0; k < kPointsOfThread; ++k) {
    output[2 * k * count + i] = x[k];
    output[(2 * k + 1) * count + i] = y[k];
  }
}

}  // namespace cuspan::bench::soft
