// Number and properties of the software GPUs: the CUSPAN_SOFT_* settings (common/settings.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"

namespace cuspan::softgpu {

struct Configuration {
  int devices;                 // On this host.
  std::uint64_t memory_bytes;  // Per device.
  std::string name;
  int capability_major, capability_minor;
  int Capability() const { return capability_major * 10 + capability_minor; }  // 90 for 9.0.
  unsigned threads;
  std::chrono::seconds kernel_limit;   // Time limit of a kernel; 0: none.
  bool check_memory;                   // Each access of kernels is checked.
  bool check_races;                    // Data races are detected.
  std::optional<std::uint64_t> order;  // Seed of a random order of threads.
  bool waits;                          // Calls wait wherever a real driver's may (Driver::MayWait).
  double copy_rate;                    // Limit of host copies, in bytes/s; 0: none.
  double block_rate;                   // Limit of each device, in blocks/s; 0: none.
};

// Returns kInvalid, naming the setting, if a value is wrong.
Result<Configuration> ReadConfiguration();

}  // namespace cuspan::softgpu
