// Reports of ended sessions, for the statistics of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "structs.gen.h"

namespace cuspan {

// A session has one report per device, even if it reopened it. Memory is bounded, since a run may
// have any number of processes: after kMaxReports, reports are added up per device and path. These
// sums have session number 0. Threads: one.
class DeviceReports {
 public:
  static constexpr std::size_t kMaxReports = 256;

  void Add(DeviceReport report);
  // All reports, then the sums.
  std::vector<DeviceReport> All() const;
  // Returns everything in pieces fitting into one message each, and clears it.
  std::vector<std::vector<DeviceReport>> Collect();
  // Total use by all sessions so far, including reports already taken. Key: number of the device,
  // and true if relayed.
  const std::map<std::pair<std::uint32_t, bool>, DeviceUse>& uses() const { return uses_; }

 private:
  std::vector<DeviceReport> reports_;
  std::vector<DeviceReport> sums_;
  std::map<std::pair<std::uint32_t, bool>, DeviceUse> uses_;
};

}  // namespace cuspan
