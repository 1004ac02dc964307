#include "protocol/nvml/nvml.h"

#include "common/format.h"

namespace cuspan::nvml {

std::string UuidText(bool mig, const std::array<std::uint8_t, 16>& uuid) {
  std::string text = mig ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    AppendFormat(text, "{:02x}", uuid[i]);
  }
  return text;
}

}  // namespace cuspan::nvml
