// What CUDA_VISIBLE_DEVICES chooses among devices. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuspan {

struct VisibleList {
  // Among the identifiers, in the order in which the program counts them.
  std::vector<std::size_t> positions;
  // A device is there twice: CUDA_ERROR_INVALID_DEVICE.
  bool repeats = false;
};

// The CUDA C++ Programming Guide defines the list: numbers, or beginnings of GPU-… and MIG-…
// identifiers, separated by commas. An entry that names no device ends it. The rest is driver
// 580.159's: the first entry tells which of the two kinds the list is of, and one of the other kind
// ends it. A device that is there twice before the end is an error. Numbers are read by strtoul, so
// "0abc", "+0" and "0x0" are device 0. A whole identifier has nothing in front of it, and
// anything behind it. `identifiers` are UUIDs of 32 lower-case hexadecimal digits.
VisibleList ReadVisibleList(std::string_view choice, std::span<const std::string> identifiers);

}  // namespace cuspan
