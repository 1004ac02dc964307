// Nodes of graphs that copy to and from variables of the program.
#include "interpose/calls/graph/exec.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/copy_box.h"

namespace cuspan {
namespace {

// A part of a variable, which is looked up on the current device.
struct SymbolPart {
  const void* symbol;
  std::size_t offset;
  std::size_t bytes;
};

// use(place) → BoxRequest says what is copied; then(Work) → Error what becomes of that.
template <typename Use, typename Then>
Error WithCopy(const SymbolPart& part, cudaMemcpyKind kind, Use&& use, Then&& then) {
  return WithSession([&](Session& session) -> Error {
    std::byte* place = nullptr;
    CUSPAN_RETURN_IF_FAILED(PlaceInVariable(session, part.symbol, part.offset, part.bytes, &place));
    CopySides sides{};
    CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &sides));
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeCopy(use(place, sides), &work));
    return then(std::move(work));
  });
}

template <typename Then>
Error CopyTo(const SymbolPart& part, const void* source, cudaMemcpyKind kind, Then&& then) {
  return WithCopy(
      part, kind,
      [&](std::byte* place, CopySides sides) { return BoxOfRun(place, source, part.bytes, sides); },
      then);
}

template <typename Then>
Error CopyFrom(const SymbolPart& part, void* destination, cudaMemcpyKind kind, Then&& then) {
  return WithCopy(
      part, kind,
      [&](std::byte* place, CopySides sides) {
        return BoxOfRun(destination, place, part.bytes, sides);
      },
      then);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                         const cudaGraphNode_t* dependencies,
                                                         std::size_t count, const void* symbol,
                                                         const void* source, std::size_t bytes,
                                                         std::size_t offset, cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyTo({symbol, offset, bytes}, source, kind, [&](Work work) {
      return AddNode(node, graph, dependencies, count, std::move(work));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                           const cudaGraphNode_t* dependencies,
                                                           std::size_t count, void* destination,
                                                           const void* symbol, std::size_t bytes,
                                                           std::size_t offset,
                                                           cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyFrom({symbol, offset, bytes}, destination, kind, [&](Work work) {
      return AddNode(node, graph, dependencies, count, std::move(work));
    });
  });
}

CUSPAN_EXPORT cudaError_t
cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* source,
                                     std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyTo({symbol, offset, bytes}, source, kind,
                  [&](Work work) { return SetNode(node, std::move(work)); });
  });
}

CUSPAN_EXPORT cudaError_t
cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* destination, const void* symbol,
                                       std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyFrom({symbol, offset, bytes}, destination, kind,
                    [&](Work work) { return SetNode(node, std::move(work)); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* source,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyTo({symbol, offset, bytes}, source, kind,
                  [&](Work work) { return SetExecNode(exec, node, std::move(work)); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, void* destination, const void* symbol,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return Answer([&] {
    return CopyFrom({symbol, offset, bytes}, destination, kind,
                    [&](Work work) { return SetExecNode(exec, node, std::move(work)); });
  });
}
