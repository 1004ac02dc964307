// Programs run by a benchmark, with their output.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan::bench {

// Runs a program and returns its output. A failure has the program's name and exit status. Its
// stderr goes to the benchmark's, unless `quiet`. Its environment is the benchmark's, unless one is
// given.
Result<std::string> Capture(const std::vector<std::string>& words, bool quiet = false,
                            const Environment* environment = nullptr);

// Folder of this benchmark's executable, PREFIX/lib/cuspan.
Result<std::string> OwnFolder();

}  // namespace cuspan::bench
