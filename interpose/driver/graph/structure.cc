// Graphs: creation, nodes and edges.
#include "interpose/calls/graph/structure.h"

#include "interpose/calls/graph/dot.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/graph/user_objects.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Graphs belong to no device: these calls work before a device is opened.
template <typename Body>
CUresult AboutGraphs(Body&& body) {
  return AnswerWithDriver([&](Session&) -> Error { return body(); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return AboutGraphs([&] { return CreateGraph(graph, flags); });
}

CUSPAN_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  return AboutGraphs([&] { return DestroyGraph(graph); });
}

CUSPAN_EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  return AboutGraphs([&] { return CloneGraph(clone, original); });
}

CUSPAN_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original,
                                              CUgraph clone) {
  return AboutGraphs([&] { return FindInClone(node, original, clone); });
}

CUSPAN_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) {
  return AboutGraphs([&] { return DestroyNode(node); });
}

CUSPAN_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return AboutGraphs([&]() -> Error {
    if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GetNodeType(node, type);
  });
}

CUSPAN_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return AboutGraphs([&] { return GetNodes(graph, false, nodes, count); });
}

CUSPAN_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return AboutGraphs([&] { return GetNodes(graph, true, nodes, count); });
}

CUSPAN_EXPORT CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned /*flags*/) {
  return AboutGraphs([&] { return DrawGraph(graph, path); });
}

// --- Edges. The _v2 forms have edge data, always empty here.

CUSPAN_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                          CUgraphEdgeData* edges, std::size_t* count) {
  return AboutGraphs([&] {
    return WithEdgeData(edges, from, count, [&] { return GetEdges(graph, from, to, count); });
  });
}
#undef cuGraphGetEdges
CUSPAN_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                       std::size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}

CUSPAN_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes,
                                                     CUgraphEdgeData* edges, std::size_t* count) {
  return AboutGraphs([&] {
    return WithEdgeData(edges, nodes, count, [&] { return GetDependencies(node, nodes, count); });
  });
}
#undef cuGraphNodeGetDependencies
CUSPAN_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes,
                                                  std::size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUSPAN_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes,
                                                       CUgraphEdgeData* edges, std::size_t* count) {
  return AboutGraphs([&] {
    return WithEdgeData(edges, nodes, count, [&] { return GetDependents(node, nodes, count); });
  });
}
#undef cuGraphNodeGetDependentNodes
CUSPAN_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes,
                                                    std::size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}

CUSPAN_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to,
                                                 const CUgraphEdgeData* edges, std::size_t count) {
  return AboutGraphs([&]() -> Error {
    if (!AreEdges(edges, count)) return CUDA_ERROR_INVALID_VALUE;
    return AddDependencies(graph, from, to, count);
  });
}
#undef cuGraphAddDependencies
CUSPAN_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, std::size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

CUSPAN_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                    const CUgraphNode* to,
                                                    const CUgraphEdgeData* /*edges*/,
                                                    std::size_t count) {
  return AboutGraphs([&] { return RemoveDependencies(graph, from, to, count); });
}
#undef cuGraphRemoveDependencies
CUSPAN_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to, std::size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

// --- User objects

CUSPAN_EXPORT CUresult cuUserObjectCreate(CUuserObject* handle, void* object, CUhostFn destroy,
                                          unsigned count, unsigned flags) {
  return AboutGraphs([&] { return CreateUserObject(handle, object, destroy, count, flags); });
}

CUSPAN_EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return AboutGraphs([&] { return RetainUserObject(handle, count); });
}

CUSPAN_EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return AboutGraphs([&] { return ReleaseUserObject(handle, count); });
}

CUSPAN_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned count,
                                               unsigned flags) {
  return AboutGraphs([&] { return RetainInGraph(graph, handle, count, flags); });
}

CUSPAN_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle,
                                                unsigned count) {
  return AboutGraphs([&] { return ReleaseFromGraph(graph, handle, count); });
}

// --- Memory allocated by graphs

CUSPAN_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return AboutGraphs([&] { return TrimGraphMemory(device); });
}

CUSPAN_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                    void* value) {
  return AboutGraphs([&]() -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GetGraphMemory(device, attribute, static_cast<std::uint64_t*>(value));
  });
}

CUSPAN_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                    void* value) {
  return AboutGraphs([&]() -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return SetGraphMemory(device, attribute, *static_cast<const std::uint64_t*>(value));
  });
}
