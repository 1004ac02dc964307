// Launch attributes of kernel nodes.
#include "common/format.h"
#include "interpose/runtime/graph_use.h"

namespace cuspan {
namespace {

Error WithKernel(cudaGraphNode_t node, const std::function<Error(KernelWork&)>& use) {
  return WithNode(node, [&](const Graphs::Place& place) -> Error {
    auto* const work = std::get_if<KernelWork>(&place.node->work);
    return work == nullptr ? Error(cudaErrorInvalidValue) : use(*work);
  });
}

// Attributes that do not change what a kernel computes: kept for those who ask.
bool IsHint(cudaLaunchAttributeID id) {
  return id == cudaLaunchAttributeAccessPolicyWindow || id == cudaLaunchAttributePriority ||
         id == cudaLaunchAttributeClusterSchedulingPolicyPreference ||
         id == cudaLaunchAttributeMemSyncDomainMap || id == cudaLaunchAttributeMemSyncDomain ||
         id == cudaLaunchAttributePreferredSharedMemoryCarveout;
}

Error GetAttribute(const KernelWork& work, cudaLaunchAttributeID id,
                   cudaLaunchAttributeValue* value) {
  *value = {};
  if (id == cudaLaunchAttributeCooperative) {
    value->cooperative = work.cooperative ? 1 : 0;
  } else if (id == cudaLaunchAttributeClusterDimension) {
    value->clusterDim = {work.cluster.x, work.cluster.y, work.cluster.z};
  } else if (!IsHint(id)) {
    return cudaErrorInvalidValue;
  } else if (const auto known = work.hints.find(id); known != work.hints.end()) {
    *value = known->second;
  }
  return cudaSuccess;
}

Error SetAttribute(KernelWork& work, cudaLaunchAttributeID id,
                   const cudaLaunchAttributeValue& value) {
  if (id == cudaLaunchAttributeCooperative) {
    work.cooperative = value.cooperative != 0;
  } else if (id == cudaLaunchAttributeClusterDimension) {
    if (value.clusterDim.x == 0 || value.clusterDim.y == 0 || value.clusterDim.z == 0)
      return cudaErrorInvalidValue;
    work.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
  } else if (IsHint(id)) {
    work.hints[id] = value;
  } else {
    return NotSupported(Format("launch attribute {} of a kernel node", static_cast<int>(id)));
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                          cudaLaunchAttributeID id,
                                                          cudaLaunchAttributeValue* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithKernel(node, [&](KernelWork& work) { return GetAttribute(work, id, value); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node,
                                                          cudaLaunchAttributeID id,
                                                          const cudaLaunchAttributeValue* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithKernel(node, [&](KernelWork& work) { return SetAttribute(work, id, *value); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t destination,
                                                            cudaGraphNode_t source) {
  return Answer([&]() -> Error {
    KernelWork from;
    CUSPAN_RETURN_IF_FAILED(WithKernel(source, [&](KernelWork& work) -> Error {
      from = work;
      return cudaSuccess;
    }));
    return WithKernel(destination, [&](KernelWork& work) -> Error {
      work.TakeAttributes(from);
      return cudaSuccess;
    });
  });
}
