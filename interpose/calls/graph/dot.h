// Graphs drawn: the language DOT of Graphviz.
#pragma once

#include <cuda.h>

#include "interpose/calls/error.h"

namespace cuspan {

// Writes the file. CUDA_ERROR_OPERATING_SYSTEM when that can not be done.
Error DrawGraph(CUgraph graph, const char* path);

}  // namespace cuspan
