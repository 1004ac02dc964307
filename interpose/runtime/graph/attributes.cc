// Launch attributes of kernel nodes.
#include "interpose/calls/graph/attributes.h"

#include "interpose/runtime/entry.h"
#include "interpose/runtime/same_bytes.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                          cudaLaunchAttributeID id,
                                                          cudaLaunchAttributeValue* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    CUlaunchAttributeValue drivers{};
    CUSPAN_RETURN_IF_FAILED(GetNodeAttribute(node, static_cast<CUlaunchAttributeID>(id), &drivers));
    *value = SameBytes<cudaLaunchAttributeValue>(drivers);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node,
                                                          cudaLaunchAttributeID id,
                                                          const cudaLaunchAttributeValue* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return SetNodeAttribute(node, static_cast<CUlaunchAttributeID>(id),
                            SameBytes<CUlaunchAttributeValue>(*value));
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t destination,
                                                            cudaGraphNode_t source) {
  return Answer([&] { return CopyNodeAttributes(destination, source); });
}
