// Arrays in files, read by kernels.
#pragma once

#include <string>

#include "bench/store/results.h"

namespace cuspan::bench::store {

// Compares with plain loads of the same bytes, and with the same program on a GPU of this machine,
// if there is one.
Status MeasureEngine(const Options& options, const std::string& own, const std::string& file,
                     Results& results);

}  // namespace cuspan::bench::store
