// Programs that a benchmark runs and reads.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan::bench {

// Runs a program and returns what it printed. A failure names the program and
// how it ended; what it said on stderr goes to the benchmark's own, unless `quiet`. Its
// environment is the benchmark's own, unless one is given.
Result<std::string> Capture(const std::vector<std::string>& words, bool quiet = false,
                            const Environment* environment = nullptr);

// The folder of this benchmark's executable, PREFIX/lib/cuspan.
Result<std::string> OwnFolder();

}  // namespace cuspan::bench
