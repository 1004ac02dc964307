// Text for a caller's buffer.
#pragma once

#include <cstring>
#include <string_view>

#include "protocol/nvml/nvml.h"

namespace cuspan::nvml {

// Copies the text with its terminating zero. kInsufficientSize if it does not fit.
inline int CopyText(std::string_view text, char* buffer, unsigned length) {
  if (buffer == nullptr) return kInvalidArgument;
  if (text.size() >= length) return kInsufficientSize;
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return kSuccess;
}

}  // namespace cuspan::nvml
