// Text for a caller's buffer.
#pragma once

#include <cstring>
#include <string_view>

#include "protocol/nvml/nvml.h"

namespace cuspan::nvml {

// With its end; kInsufficientSize when there is no room.
inline int CopyText(std::string_view text, char* buffer, unsigned length) {
  if (buffer == nullptr) return kInvalidArgument;
  if (text.size() >= length) return kInsufficientSize;
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return kSuccess;
}

}  // namespace cuspan::nvml
