// Executable graphs: instantiation, launches, updates.
#include "interpose/calls/execution/exec.h"

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Programs of CUDA 11 pass outputs for a node and a text instead of the flags.
CUSPAN_EXPORT cudaError_t
CuspanGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long third,
                       char* text, std::size_t text_bytes) __asm__("cudaGraphInstantiate");
CUSPAN_EXPORT cudaError_t CuspanGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long third, char* text,
                                                 std::size_t text_bytes) {
  if (CallerRelease(__builtin_return_address(0)) >= 12)
    return AnswerUnlessFaulted([&] { return InstantiateGraph(exec, graph, third); });
  auto* const node = HandleOf<cudaGraphNode_t*>(third);
  if (node != nullptr) *node = nullptr;
  if (text != nullptr && text_bytes != 0) *text = 0;
  return AnswerUnlessFaulted([&] { return InstantiateGraph(exec, graph, 0); });
}

CUSPAN_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return AnswerUnlessFaulted([&] { return InstantiateGraph(exec, graph, flags); });
}

CUSPAN_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         cudaGraphInstantiateParams* parameters) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    parameters->errNode_out = nullptr;
    CUgraphInstantiateResult reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    const Error result = InstantiateGraph(exec, graph, parameters->flags, &reason);
    // The numbers are equal.
    parameters->result_out = static_cast<cudaGraphInstantiateResult>(reason);
    return result;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Answer([&] { return DestroyExec(exec); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return Answer([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return WithExec(exec, [&](Graphs&, const GraphExec& found) -> Error {
      *flags = found.flags;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT_TWINS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                    Answer([&] { return LaunchGraph(exec, stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                    Answer([&] { return UploadGraph(exec, stream, meaning); }))

// Programs of CUDA 11 pass outputs for a node and the result instead of the structure.
CUSPAN_EXPORT cudaError_t
CuspanGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, void* third,
                      cudaGraphExecUpdateResult* result) __asm__("cudaGraphExecUpdate");
CUSPAN_EXPORT cudaError_t CuspanGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                                void* third, cudaGraphExecUpdateResult* result) {
  UpdateReport report{};
  const cudaError_t error = Answer([&] { return UpdateExec(exec, graph, &report); });
  const auto told = static_cast<cudaGraphExecUpdateResult>(report.result);
  if (CallerRelease(__builtin_return_address(0)) == 11) {
    if (third != nullptr) *static_cast<cudaGraphNode_t*>(third) = report.node;
    if (result != nullptr) *result = told;
  } else if (third != nullptr) {
    *static_cast<cudaGraphExecUpdateResultInfo*>(third) = {told, report.node, nullptr};
  }
  return error;
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  unsigned enabled) {
  return Answer([&] { return EnableNode(exec, node, enabled != 0); });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  unsigned* enabled) {
  return Answer([&]() -> Error {
    if (enabled == nullptr) return cudaErrorInvalidValue;
    bool is_enabled = false;
    CUSPAN_RETURN_IF_FAILED(IsNodeEnabled(exec, node, &is_enabled));
    *enabled = is_enabled ? 1 : 0;
    return cudaSuccess;
  });
}
