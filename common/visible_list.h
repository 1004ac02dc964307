// Evaluates CUDA_VISIBLE_DEVICES. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuspan {

struct VisibleList {
  // Indices into the identifiers, in the program's numbering.
  std::vector<std::size_t> positions;
  // A device is listed twice: CUDA_ERROR_INVALID_DEVICE.
  bool repeats = false;
};

// The CUDA C++ Programming Guide defines the list: numbers, or prefixes of GPU-… and MIG-…
// identifiers, separated by commas. An entry naming no device ends it. The rest follows driver
// 580.159: the first entry determines the kind of all entries (numbers or identifiers), and an
// entry of the other kind ends the list. A device listed twice before the end is an error. Numbers
// are read by strtoul, so "0abc", "+0" and "0x0" are device 0. A whole identifier has nothing
// before it, and anything after it. `identifiers` are UUIDs of 32 lower-case hexadecimal digits.
VisibleList ReadVisibleList(std::string_view choice, std::span<const std::string> identifiers);

}  // namespace cuspan
