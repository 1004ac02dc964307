// Lines of files read by the host's threads when kernels ask for them.
#pragma once

#include <string>

#include "bench/store/results.h"

namespace cuspan::bench::store {

// Compares with plain reads of the same lines by this process, and with the same program on a GPU
// of this machine, if there is one. Afterwards the file may not be in the page cache.
Status MeasureServed(const Options& options, const std::string& own, const std::string& file,
                     Results& results);

}  // namespace cuspan::bench::store
