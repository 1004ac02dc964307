// A size as a whole number of units.
#pragma once

#include <cstddef>

namespace cuspan {

// The smallest multiple of `to` that is not below `value`. `to` is not 0, and the result fits.
constexpr std::size_t RoundUp(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace cuspan
