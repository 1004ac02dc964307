// Rounds a size up to a whole number of units.
#pragma once

#include <cstddef>

namespace cuspan {

// The smallest multiple of `to` not below `value`. `to` is not 0, and the result must fit.
constexpr std::size_t RoundUp(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace cuspan
