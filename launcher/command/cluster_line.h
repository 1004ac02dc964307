// Options of the command line for hosts and GPUs, common to several commands.
#pragma once

#include "launcher/run/cluster_options.h"
#include "launcher/text/option_values.h"

namespace cuspan {

// Checks the options with kOnCluster, and the request for GPUs of `cuspan run`.
Result<ClusterOptions> CheckClusterOptions(const OptionValues& values);

// Parses a number from 1 to 4096. The error continues `range` with these bounds: "a rank has".
Result<std::uint32_t> ParseUpTo4096(const std::string& text, const char* option, const char* range);

}  // namespace cuspan
