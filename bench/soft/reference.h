// The algorithms of kernels.cu in plain C++, for comparison with the software GPU. Always compiled
// with only -O2, in all build types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::bench::soft {

struct Complex {
  float x, y;
};

// All functions process the part [begin, end) of the given units, so threads can share the work.

// c = a * b for n by n matrices, n a multiple of 32; units: rows of tiles of 32 by 32.
void MultiplyTiles(const float* a, const float* b, float* c, std::size_t n, std::size_t begin,
                   std::size_t end);
// c = a + b; units: elements.
void Add(const float* a, const float* b, float* c, std::size_t begin, std::size_t end);
// Units: elements.
float Sum(const float* values, std::size_t begin, std::size_t end);
// Units: transforms of 1024 points; turns[k] = exp(-2 pi i k / 1024).
void Transform1024(const Complex* input, const Complex* turns, Complex* output, std::size_t begin,
                   std::size_t end);
// Number of ways to place queens on a board; units: placements of the first rows.
void CountQueens(int size, std::uint32_t* ways, std::size_t begin, std::size_t end);
// Results of small programs; units: programs.
void RunMachines(const std::uint8_t* programs, int steps, std::uint32_t* results, std::size_t begin,
                 std::size_t end);
// Systems of kSmallSystem equations (unrolled.h); units: systems, `count` in total.
void SolveSmallSystems(const float* matrix, const float* right, float* x, std::size_t count,
                       std::size_t begin, std::size_t end);
// Transforms of kPointsOfThread points (unrolled.h); units: transforms, `count` in total.
void TransformFewPoints(const float* input, const float* turns, float* output, std::size_t count,
                        std::size_t begin, std::size_t end);
// Steps of Collatz's rule to 1; units: elements.
void CountSteps(const std::uint32_t* starts, std::uint32_t* steps, std::size_t begin,
                std::size_t end);

}  // namespace cuspan::bench::soft
