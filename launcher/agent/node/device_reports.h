// Reports of sessions that have ended, for the statistics of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "structs.gen.h"

namespace cuspan {

// A session has one report for each device, however often it has used it anew. Memory is bounded: a
// run may have any number of processes. Further reports than kMaxReports are added up, a sum for
// each device and path; a sum names no session (0). One thread.
class DeviceReports {
 public:
  static constexpr std::size_t kMaxReports = 256;

  void Add(DeviceReport report);
  // All reports, then the sums.
  std::vector<DeviceReport> All() const;
  // All of them in pieces that fit into one message each. It is empty afterwards.
  std::vector<std::vector<DeviceReport>> Take();
  // Uses by all sessions so far, reports that were taken included, by the number of the device and
  // whether it is relayed.
  const std::map<std::pair<std::uint32_t, bool>, DeviceUse>& uses() const { return uses_; }

 private:
  std::vector<DeviceReport> reports_;
  std::vector<DeviceReport> sums_;
  std::map<std::pair<std::uint32_t, bool>, DeviceUse> uses_;
};

}  // namespace cuspan
