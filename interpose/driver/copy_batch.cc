// Batches of copies.
#include "interpose/calls/copy_batch.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

CUresult CopyRuns(const RunLists<CUdeviceptr, CUdeviceptr>& lists,
                  const CUmemcpyAttributes* attributes, std::size_t* failed, CUstream stream,
                  DefaultStream meaning) {
  return AnswerInContext([&](Session&) -> Error {
    if (failed != nullptr) *failed = SIZE_MAX;
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<RunWithAttributes> runs;
    CUSPAN_RETURN_IF_FAILED(RunsOf(
        lists, [&](std::size_t group) { return attributes[group]; }, &runs));
    return CopyBatch(runs, stream, meaning, failed);
  });
}

CUresult CopyBoxes(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count,
                   unsigned long long flags, std::size_t* failed, CUstream stream,
                   DefaultStream meaning) {
  return AnswerInContext(
      [&](Session&) { return CopyBatch(copies, count, flags, stream, meaning, failed); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cuMemcpyBatchAsync_v2, _ptsz,
                    (CUdeviceptr * destinations, CUdeviceptr* sources, std::size_t* sizes,
                     std::size_t count, CUmemcpyAttributes* attributes, std::size_t* first_copies,
                     std::size_t groups, CUstream stream),
                    CopyRuns({destinations, sources, sizes, count, first_copies, groups},
                             attributes, nullptr, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3DBatchAsync_v2, _ptsz,
                    (std::size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags,
                     CUstream stream),
                    CopyBoxes(copies, count, flags, nullptr, stream, meaning))
// Forms before CUDA 13: they report the failed copy.
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
CUSPAN_EXPORT_TWINS(cuMemcpyBatchAsync, _ptsz,
                    (CUdeviceptr * destinations, CUdeviceptr* sources, std::size_t* sizes,
                     std::size_t count, CUmemcpyAttributes* attributes, std::size_t* first_copies,
                     std::size_t groups, std::size_t* failed, CUstream stream),
                    CopyRuns({destinations, sources, sizes, count, first_copies, groups},
                             attributes, failed, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3DBatchAsync, _ptsz,
                    (std::size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t* failed,
                     unsigned long long flags, CUstream stream),
                    CopyBoxes(copies, count, flags, failed, stream, meaning))
