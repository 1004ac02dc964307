// Whole files read into device memory, and parts of 4 KiB.
#pragma once

#include <string>

#include "bench/store/results.h"

namespace cuspan::bench::store {

// Reads `file` in all ways. `folder`: for a copy of NVIDIA's library.
Status MeasureBulk(const Options& options, const std::string& own, const std::string& folder,
                   const std::string& file, Results& results);

}  // namespace cuspan::bench::store
