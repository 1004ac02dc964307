// Batches of copies, and copies with attributes.
#include "interpose/calls/copy_batch.h"

#include <cstdarg>

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {
namespace {

Error CopyRuns(const RunLists<void*, const void*>& lists, const cudaMemcpyAttributes* attributes,
               std::size_t* failed, cudaStream_t stream, DefaultStream meaning) {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (attributes == nullptr) return cudaErrorInvalidValue;
  std::vector<RunWithAttributes> runs;
  CUSPAN_RETURN_IF_FAILED(RunsOf(
      lists, [&](std::size_t group) { return SameBytes<CUmemcpyAttributes>(attributes[group]); },
      &runs));
  return CopyBatch(runs, stream, meaning, failed);
}

Error CopyBoxes(const cudaMemcpy3DBatchOp* copies, std::size_t count, unsigned long long flags,
                std::size_t* failed, cudaStream_t stream, DefaultStream meaning) {
  std::vector<CUDA_MEMCPY3D_BATCH_OP> drivers;
  for (std::size_t i = 0; copies != nullptr && i < count; ++i)
    drivers.push_back(SameBytes<CUDA_MEMCPY3D_BATCH_OP>(copies[i]));
  return CopyBatch(drivers.data(), drivers.size(), flags, stream, meaning, failed);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// CUDA 12 has an additional parameter before the stream: the index of the failed copy. The
// program's libcudart tells the two apart. CUDA 13's header declares the names differently, so C++
// names of our own are used. The different parameters are on the caller's stack. It may have one
// fewer there, so they are read one by one.
#define CUSPAN_EXPORT_BATCH(ours, function, meaning)                                           \
  CUSPAN_EXPORT cudaError_t ours(void* const* destinations, const void* const* sources,        \
                                 const std::size_t* sizes, std::size_t count,                  \
                                 cudaMemcpyAttributes* attributes, std::size_t* first_copies,  \
                                 std::size_t groups, ...) __asm__(#function);                  \
  CUSPAN_EXPORT cudaError_t ours(void* const* destinations, const void* const* sources,        \
                                 const std::size_t* sizes, std::size_t count,                  \
                                 cudaMemcpyAttributes* attributes, std::size_t* first_copies,  \
                                 std::size_t groups, ...) {                                    \
    const bool before_13 = CallerIsBefore13(__builtin_return_address(0));                      \
    std::va_list rest;                                                                         \
    va_start(rest, groups);                                                                    \
    std::size_t* const failed = before_13 ? va_arg(rest, std::size_t*) : nullptr;              \
    const cudaStream_t stream = va_arg(rest, cudaStream_t);                                    \
    va_end(rest);                                                                              \
    return Answer([&] {                                                                        \
      return CopyRuns({destinations, sources, sizes, count, first_copies, groups}, attributes, \
                      failed, stream, meaning);                                                \
    });                                                                                        \
  }
CUSPAN_EXPORT_BATCH(CuspanMemcpyBatch, cudaMemcpyBatchAsync, DefaultStream::kLegacy)
CUSPAN_EXPORT_BATCH(CuspanMemcpyBatchPerThread, cudaMemcpyBatchAsync_ptsz,
                    DefaultStream::kPerThread)

#define CUSPAN_EXPORT_BOX_BATCH(ours, function, meaning)                                          \
  CUSPAN_EXPORT cudaError_t ours(std::size_t count, cudaMemcpy3DBatchOp* copies,                  \
                                 std::uint64_t third, std::uint64_t fourth,                       \
                                 cudaStream_t fifth) __asm__(#function);                          \
  CUSPAN_EXPORT cudaError_t ours(std::size_t count, cudaMemcpy3DBatchOp* copies,                  \
                                 std::uint64_t third, std::uint64_t fourth, cudaStream_t fifth) { \
    const bool before_13 = CallerIsBefore13(__builtin_return_address(0));                         \
    return Answer([&] {                                                                           \
      if (before_13)                                                                              \
        return CopyBoxes(copies, count, fourth, HandleOf<std::size_t*>(third), fifth, meaning);   \
      return CopyBoxes(copies, count, third, nullptr, HandleOf<cudaStream_t>(fourth), meaning);   \
    });                                                                                           \
  }
CUSPAN_EXPORT_BOX_BATCH(CuspanMemcpy3DBatch, cudaMemcpy3DBatchAsync, DefaultStream::kLegacy)
CUSPAN_EXPORT_BOX_BATCH(CuspanMemcpy3DBatchPerThread, cudaMemcpy3DBatchAsync_ptsz,
                        DefaultStream::kPerThread)

// Added by CUDA releases 13.1 and later.
CUSPAN_EXPORT_TWINS(cudaMemcpyWithAttributesAsync, _ptsz,
                    (void* destination, const void* source, std::size_t bytes,
                     cudaMemcpyAttributes* attributes, cudaStream_t stream),
                    Answer([&]() -> Error {
                      if (attributes == nullptr) return cudaErrorInvalidValue;
                      return CopyWithAttributes(
                          {destination, source, bytes, SameBytes<CUmemcpyAttributes>(*attributes)},
                          stream, meaning);
                    }))
CUSPAN_EXPORT_TWINS(cudaMemcpy3DWithAttributesAsync, _ptsz,
                    (cudaMemcpy3DBatchOp * copy, unsigned long long flags, cudaStream_t stream),
                    Answer([&]() -> Error {
                      if (copy == nullptr) return cudaErrorInvalidValue;
                      return CopyWithAttributes(SameBytes<CUDA_MEMCPY3D_BATCH_OP>(*copy), flags,
                                                stream, meaning);
                    }))
