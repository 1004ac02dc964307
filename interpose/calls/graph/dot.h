// Graphs in DOT, the language of Graphviz.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"

namespace cuspan {

// Writes the file. CUDA_ERROR_OPERATING_SYSTEM on failure.
Error DrawGraph(CUgraph graph, const char* path);

}  // namespace cuspan
