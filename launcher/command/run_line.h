// Options of `cuspan run` on the command line.
#pragma once

#include <string>
#include <vector>

#include "launcher/command/options.h"
#include "launcher/text/option_values.h"

namespace cuspan {

// Checks the options with kOnRun. `program` is the program's command line.
Result<RunOptions> CheckRunOptions(const OptionValues& values, std::vector<std::string> program);

}  // namespace cuspan
