#include "interpose/calls/graph/attributes.h"

#include "common/format.h"
#include "interpose/calls/graph/graph_table.h"

namespace cuspan {
namespace {

Error WithKernel(CUgraphNode node, const std::function<Error(KernelWork&)>& use) {
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
    auto* const work = std::get_if<KernelWork>(&place.node->work);
    return work == nullptr ? Error(CUDA_ERROR_INVALID_VALUE) : use(*work);
  });
}

// True for attributes without effect on a kernel's results: stored for queries only.
bool IsHint(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN ||
         id == CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
}

Error GetAttribute(const KernelWork& work, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
  CUlaunchAttributeValue found{};
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    found.cooperative = work.cooperative ? 1 : 0;
  } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    found.clusterDim = {work.cluster.x, work.cluster.y, work.cluster.z};
  } else if (!IsHint(id)) {
    return CUDA_ERROR_INVALID_VALUE;
  } else if (const auto known = work.hints.find(id); known != work.hints.end()) {
    found = known->second;
  } else if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) {
    found.memSyncDomainMap = {0, 1};  // CUDA's default.
  }
  *value = found;
  return CUDA_SUCCESS;
}

Error SetAttribute(KernelWork& work, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    work.cooperative = value.cooperative != 0;
  } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    if (value.clusterDim.x == 0 || value.clusterDim.y == 0 || value.clusterDim.z == 0)
      return CUDA_ERROR_INVALID_VALUE;
    work.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
  } else if (IsHint(id)) {
    work.hints[id] = value;
  } else {
    return NotSupported(Format("launch attribute {} of a kernel node", static_cast<int>(id)));
  }
  return CUDA_SUCCESS;
}

}  // namespace

Error GetNodeAttribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithKernel(node, [&](KernelWork& work) { return GetAttribute(work, id, value); });
}

Error SetNodeAttribute(CUgraphNode node, CUlaunchAttributeID id,
                       const CUlaunchAttributeValue& value) {
  return WithKernel(node, [&](KernelWork& work) { return SetAttribute(work, id, value); });
}

Error CopyNodeAttributes(CUgraphNode destination, CUgraphNode source) {
  KernelWork from;
  CUSPAN_RETURN_IF_FAILED(WithKernel(source, [&](KernelWork& work) -> Error {
    from = work;
    return CUDA_SUCCESS;
  }));
  return WithKernel(destination, [&](KernelWork& work) -> Error {
    work.CopyAttributes(from);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
