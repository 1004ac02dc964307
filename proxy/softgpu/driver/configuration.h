// How many software GPUs there are and what they look like: the CUSPAN_SOFT_*
// settings (common/settings.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"

namespace cuspan::softgpu {

struct Configuration {
  int devices;                 // Of this host.
  std::uint64_t memory_bytes;  // Of each device.
  std::string name;
  int capability_major, capability_minor;
  int Capability() const { return capability_major * 10 + capability_minor; }  // 90 for 9.0.
  unsigned threads;
  std::chrono::seconds kernel_limit;   // How long a kernel may run; 0: for ever.
  bool check_memory;                   // Every access of a kernel is checked,
  bool check_races;                    // and compared with those of other threads.
  std::optional<std::uint64_t> order;  // The seed of a random order of threads.
  double copy_rate;                    // Of copies to and from the host, in bytes a second; 0: any.
  double block_rate;                   // Of kernels, in blocks a second on each device; 0: any.
};

// kInvalid names the setting that is wrong.
Result<Configuration> ReadConfiguration();

}  // namespace cuspan::softgpu
