#include "interpose/calls/graph/dot.h"

#include <cstdio>

#include "common/format.h"
#include "interpose/calls/graph/graph_table.h"
#include "interpose/calls/graph/identity.h"

namespace cuspan {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

struct Label {
  std::string operator()(const KernelWork& work) const {
    return Format("kernel {} <<<({}, {}, {}), ({}, {}, {}), {}>>>", work.function->name,
                  work.grid.x, work.grid.y, work.grid.z, work.block.x, work.block.y, work.block.z,
                  work.dynamic_shared);
  }
  std::string operator()(const CopyWork& work) const {
    const BoxExtent& extent = work.box.extent;
    return Format("memcpy {} x {} x {}", extent.width, extent.rows, extent.planes);
  }
  std::string operator()(const SetWork& work) const {
    return Format("memset {} x {} x {}", work.parameters.width, work.parameters.height,
                  work.parameters.elementSize);
  }
  std::string operator()(const HostWork&) const { return "host"; }
  std::string operator()(const ChildWork&) const { return "graph"; }
  std::string operator()(const EmptyWork&) const { return "empty"; }
  std::string operator()(const WaitWork&) const { return "event wait"; }
  std::string operator()(const RecordWork&) const { return "event record"; }
  std::string operator()(const AllocateWork& work) const {
    return Format("alloc {}", work.parameters.bytesize);
  }
  std::string operator()(const FreeWork&) const { return "free"; }
  std::string operator()(const MemoryBatchWork& work) const {
    return Format("batch mem op {}", work.operations.size());
  }
  std::string operator()(const CollectiveWork& work) const {
    return work.calls.size() == 1
               ? nccl::NameOf(static_cast<nccl::CallKind>(work.calls.front().kind))
               : Format("NCCL group {}", work.calls.size());
  }
  std::string operator()(const ConditionWork& work) const {
    constexpr const char* kKinds[] = {"if", "while", "switch"};
    return kKinds[work.kind];
  }
};

void Draw(const Graph& graph, std::string* out) {
  AppendFormat(*out, "subgraph cluster_{} {{\n", IdOf(graph));
  for (const auto& node : graph.nodes) {
    AppendFormat(*out, "node_{} [label={}];\n", IdOf(*node),
                 Quoted(std::visit(Label(), node->work)));
    for (const GraphNode* dependency : node->dependencies)
      AppendFormat(*out, "node_{} -> node_{};\n", IdOf(*dependency), IdOf(*node));
    if (const auto* const child = std::get_if<ChildWork>(&node->work)) Draw(*child->graph, out);
    if (const auto* const condition = std::get_if<ConditionWork>(&node->work))
      for (const auto& body : condition->bodies) Draw(*body, out);
  }
  out->append("}\n");
}

Error Write(const std::string& text, const char* path) {
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace

Error DrawGraph(CUgraph graph, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string text = "digraph cuda {\n";
  CUSPAN_RETURN_IF_FAILED(
      WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) -> Error {
        Draw(*found, &text);
        return CUDA_SUCCESS;
      }));
  return Write(text + "}\n", path);
}

}  // namespace cuspan
