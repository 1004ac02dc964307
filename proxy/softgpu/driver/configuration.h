// How many software GPUs there are and what they look like: the CUSPAN_SOFT_*
// settings (common/settings.h).
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace cuspan::softgpu {

struct Configuration {
  int devices;
  std::uint64_t memory_bytes;  // Of each device.
  std::string name;
  int capability_major, capability_minor;
  unsigned threads;
};

// kInvalid names the setting that is wrong.
Result<Configuration> ReadConfiguration();

}  // namespace cuspan::softgpu
