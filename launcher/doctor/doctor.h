// `cuspan doctor`: what a run would need and does not find.
#pragma once

#include <chrono>

#include "launcher/run/cluster_options.h"

namespace cuspan {

struct DoctorOptions {
  ClusterOptions cluster;
  bool json = false;
  bool probe = false;            // Says what this host is, for another one's doctor.
  std::chrono::seconds limit{};  // For a host to answer.
};

// Prints what is found on standard output; the exit status: 1 where something keeps a run from
// working. With `options.probe` says what this host is instead, for another one's doctor.
int Doctor(const DoctorOptions& options);

}  // namespace cuspan
