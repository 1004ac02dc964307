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

// As the CUDA C++ Programming Guide says: numbers, or beginnings of GPU-… and MIG-… identifiers,
// separated by commas; what is not there ends the list. As the driver does it (580.159): the first
// entry says which of the two kinds the list is of, one of the other kind ends it, and a device
// that is there twice before the end is an error. `identifiers` are UUIDs of 32 lower-case
// hexadecimal digits.
VisibleList ReadVisibleList(std::string_view choice, std::span<const std::string> identifiers);

}  // namespace cuspan
