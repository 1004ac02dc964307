// `cuspan doctor`: requirements of a run missing on its hosts.
#pragma once

#include <chrono>

#include "launcher/run/cluster_options.h"

namespace cuspan {

struct DoctorOptions {
  ClusterOptions cluster;
  bool json = false;
  bool probe = false;            // Prints this host's facts for another host's doctor.
  std::chrono::seconds limit{};  // Time for a host to answer.
};

// Prints its findings on standard output. Returns the exit status: 1 if a finding prevents a run.
// With `options.probe`, prints this host's facts for another host's doctor.
int Doctor(const DoctorOptions& options);

}  // namespace cuspan
