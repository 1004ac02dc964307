#include "bench/soft/reference.h"

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
  std::uint32_t columns[kDeepestQueens], left[kDeepestQueens], right[kDeepestQueens],
      open[kDeepestQueens];
  const std::uint32_t all = (1U << size) - 1;
  for (std::size_t i = begin; i < end; ++i) {
    std::uint32_t taken = 0, to_left = 0, to_right = 0, found = 0;
    bool possible = true;
    std::size_t rest = i;
    for (int row = 0; row < kPlacedQueens; ++row, rest /= static_cast<std::size_t>(size)) {
      const std::uint32_t queen = 1U << (rest % static_cast<std::size_t>(size));
      possible = possible && ((taken | to_left | to_right) & queen) == 0;
      taken |= queen;
      to_left = (to_left | queen) << 1 & all;
      to_right = (to_right | queen) >> 1;
    }
    int row = possible ? kPlacedQueens : -1;
    if (possible) {
      columns[row] = taken, left[row] = to_left, right[row] = to_right;
      open[row] = all & ~(taken | to_left | to_right);
    }
    while (row >= kPlacedQueens) {
      const std::uint32_t queen = open[row] & (0U - open[row]);
      if (queen == 0) {
        --row;
        continue;
      }
      open[row] ^= queen;
      if (row == size - 1) {
        ++found;
        continue;
      }
      columns[row + 1] = columns[row] | queen;
      left[row + 1] = (left[row] | queen) << 1;
      right[row + 1] = (right[row] | queen) >> 1;
      ++row;
      open[row] = all & ~(columns[row] | left[row] | right[row]);
    }
    ways[i] = found;
  }
}

void RunMachines(const std::uint8_t* programs, int steps, std::uint32_t* results, std::size_t begin,
                 std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint8_t* const program = programs + i * kMachineBytes;
    std::uint32_t stack[kMachineStack];
    std::uint32_t top = 0, at = 0, sum = static_cast<std::uint32_t>(i);
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
    results[i] = sum;
  }
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
