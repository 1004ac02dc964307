// What a node of a graph is to do, from the parameters of the runtime. They are checked as far as
// that can be done without the node's place; the current device is the one that kernels are for.
#pragma once

#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work);
Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work);
Error DescribeWork(const cudaMemsetParams* parameters, Work* work);
Error DescribeWork(const cudaHostNodeParams* parameters, Work* work);
// All kinds that cudaGraphAddNode knows.
Error DescribeWork(cudaGraphNodeParams* parameters, Work* work);
// A copy of one run of bytes.
Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work);

}  // namespace cuspan
