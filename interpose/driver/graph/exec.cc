// Executable graphs: instantiation, launches, updates.
#include "interpose/calls/execution/exec.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// The first two forms have outputs for a node and a text instead of flags.
Error InstantiateWithLog(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* text,
                         std::size_t text_bytes) {
  if (node != nullptr) *node = nullptr;
  if (text != nullptr && text_bytes != 0) *text = 0;
  return InstantiateGraph(exec, graph, 0);
}

Error InstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                            CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  parameters->hErrNode_out = nullptr;
  return InstantiateGraph(exec, graph, parameters->flags, &parameters->result_out);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                   unsigned long long flags) {
  return AnswerInContext(
      [&](Session&, ContextConnection&) { return InstantiateGraph(exec, graph, flags); });
}

CUSPAN_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* node,
                                             char* text, std::size_t text_bytes) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return InstantiateWithLog(exec, graph, node, text, text_bytes);
  });
}

CUSPAN_EXPORT_TWINS(cuGraphInstantiateWithParams, _ptsz,
                    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
                    AnswerInContext([&](Session&, ContextConnection&) {
                      return InstantiateWithParams(exec, graph, parameters);
                    }))

CUSPAN_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return AnswerWithDriver([&](Session&) { return DestroyExec(exec); });
}

CUSPAN_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithExec(exec, [&](Graphs&, const GraphExec& found) -> Error {
      *flags = found.flags;
      return CUDA_SUCCESS;
    });
  });
}

CUSPAN_EXPORT_TWINS(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerInContext([&](Session&, ContextConnection&) {
                        return LaunchGraph(exec, stream, meaning);
                      });
                    }))

CUSPAN_EXPORT_TWINS(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerInContext([&](Session&, ContextConnection&) {
                        return UploadGraph(exec, stream, meaning);
                      });
                    }))

CUSPAN_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                            CUgraphExecUpdateResultInfo* result) {
  return AnswerInContext([&](Session&, ContextConnection&) -> Error {
    UpdateReport report{};
    const Error error = UpdateExec(exec, graph, &report);
    if (result != nullptr) *result = {report.result, report.node, nullptr};
    return error;
  });
}
#undef cuGraphExecUpdate
CUSPAN_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                                         CUgraphExecUpdateResult* result) {
  return AnswerInContext([&](Session&, ContextConnection&) -> Error {
    UpdateReport report{};
    const Error error = UpdateExec(exec, graph, &report);
    if (node != nullptr) *node = report.node;
    if (result != nullptr) *result = report.result;
    return error;
  });
}

CUSPAN_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return AnswerInContext(
      [&](Session&, ContextConnection&) { return EnableNode(exec, node, enabled != 0); });
}

CUSPAN_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node,
                                             unsigned* enabled) {
  return AnswerInContext([&](Session&, ContextConnection&) -> Error {
    if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
    bool is_enabled = false;
    CUSPAN_RETURN_IF_FAILED(IsNodeEnabled(exec, node, &is_enabled));
    *enabled = is_enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
