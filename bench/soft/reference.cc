#include "bench/soft/reference.h"

#include "bench/soft/local_stacks.h"
#include "bench/soft/unrolled.h"

namespace cuspan::bench::soft {

void MultiplyTiles(const float* a, const float* b, float* c, std::size_t n, std::size_t begin,
                   std::size_t end) {
  constexpr std::size_t kTile = 32;
  for (std::size_t tile_row = begin; tile_row < end; ++tile_row) {
    for (std::size_t tile_column = 0; tile_column < n / kTile; ++tile_column) {
      float sums[kTile][kTile] = {};
      for (std::size_t tile = 0; tile < n / kTile; ++tile) {
        float tile_a[kTile][kTile];
        float tile_b[kTile][kTile];
        for (std::size_t y = 0; y < kTile; ++y) {
          for (std::size_t x = 0; x < kTile; ++x) {
            tile_a[y][x] = a[(tile_row * kTile + y) * n + tile * kTile + x];
            tile_b[y][x] = b[(tile * kTile + y) * n + tile_column * kTile + x];
          }
        }
        for (std::size_t y = 0; y < kTile; ++y) {
          for (std::size_t k = 0; k < kTile; ++k) {
            for (std::size_t x = 0; x < kTile; ++x) sums[y][x] += tile_a[y][k] * tile_b[k][x];
          }
        }
      }
      for (std::size_t y = 0; y < kTile; ++y) {
        for (std::size_t x = 0; x < kTile; ++x)
          c[(tile_row * kTile + y) * n + tile_column * kTile + x] = sums[y][x];
      }
    }
  }
}

void Add(const float* a, const float* b, float* c, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
}

float Sum(const float* values, std::size_t begin, std::size_t end) {
  float sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += values[i];
  return sum;
}

void Transform1024(const Complex* input, const Complex* turns, Complex* output, std::size_t begin,
                   std::size_t end) {
  constexpr std::size_t kPoints = 1024;
  std::uint32_t reversed[kPoints];
  for (std::uint32_t i = 0; i < kPoints; ++i) {
    reversed[i] = 0;
    for (std::uint32_t bit = 0; bit < 10; ++bit) reversed[i] |= (i >> bit & 1) << (9 - bit);
  }
  for (std::size_t transform = begin; transform < end; ++transform) {
    Complex points[kPoints];
    for (std::size_t i = 0; i < kPoints; ++i) points[reversed[i]] = input[transform * kPoints + i];
    for (std::size_t half = 1; half < kPoints; half *= 2) {
      for (std::size_t base = 0; base < kPoints; base += 2 * half) {
        for (std::size_t offset = 0; offset < half; ++offset) {
          const Complex turn = turns[offset * (kPoints / 2 / half)];
          Complex& low = points[base + offset];
          Complex& high = points[base + offset + half];
          const Complex turned{high.x * turn.x - high.y * turn.y,
                               high.x * turn.y + high.y * turn.x};
          high = {low.x - turned.x, low.y - turned.y};
          low = {low.x + turned.x, low.y + turned.y};
        }
      }
    }
    for (std::size_t i = 0; i < kPoints; ++i) output[transform * kPoints + i] = points[i];
  }
}

void CountQueens(int size, std::uint32_t* ways, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    ways[i] = CountWays(static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(i));
}

void RunMachines(const std::uint8_t* programs, int steps, std::uint32_t* results, std::size_t begin,
                 std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    results[i] = RunMachine(programs + i * kMachineBytes, steps, static_cast<std::uint32_t>(i));
}

void SolveSmallSystems(const float* matrix, const float* right, float* x, std::size_t count,
                       std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) SolveSystem<kSmallSystem>(matrix, right, x, count, i);
}

void TransformFewPoints(const float* input, const float* turns, float* output, std::size_t count,
                        std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) TransformPoints(input, turns, output, count, i);
}

void CountSteps(const std::uint32_t* starts, std::uint32_t* steps, std::size_t begin,
                std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    std::uint32_t n = starts[i];
    std::uint32_t taken = 0;
    while (n != 1) {
      n = n % 2 == 0 ? n / 2 : 3 * n + 1;
      ++taken;
    }
    steps[i] = taken;
  }
}

}  // namespace cuspan::bench::soft
