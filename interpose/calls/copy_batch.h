// Batches of copies, and copies with attributes. The copies of a batch run one after the other in
// their stream, an order allowed by CUDA.
#pragma once

#include <vector>

#include "interpose/calls/batch.h"
#include "interpose/calls/copy_box.h"

namespace cuspan {

// A copy of one contiguous range.
struct RunWithAttributes {
  void* destination;
  const void* source;
  std::size_t bytes;
  CUmemcpyAttributes attributes;
};

// The program's lists: an element of the first three for each copy, and of `first_copies` for each
// group of copies with the same attributes. Addresses are pointers or CUdeviceptr.
template <typename Destination, typename Source>
struct RunLists {
  const Destination* destinations;
  const Source* sources;
  const std::size_t* sizes;
  std::size_t copies;
  const std::size_t* first_copies;
  std::size_t groups;
};

// Converts the lists to copies; attributes_of(group) → CUmemcpyAttributes. CUDA_ERROR_INVALID_VALUE
// for missing or empty lists and for invalid groups.
template <typename Destination, typename Source, typename AttributesOf>
Error RunsOf(const RunLists<Destination, Source>& lists, AttributesOf&& attributes_of,
             std::vector<RunWithAttributes>* runs) {
  if (lists.destinations == nullptr || lists.sources == nullptr || lists.sizes == nullptr ||
      !AreGroups(lists.first_copies, lists.groups, lists.copies))
    return CUDA_ERROR_INVALID_VALUE;
  return ForEachInGroups(lists.first_copies, lists.groups, lists.copies,
                         [&](std::size_t i, std::size_t group) -> Error {
                           runs->push_back({reinterpret_cast<void*>(lists.destinations[i]),
                                            reinterpret_cast<const void*>(lists.sources[i]),
                                            lists.sizes[i], attributes_of(group)});
                           return CUDA_SUCCESS;
                         });
}

// *failed (may be null): index of the failed copy, or SIZE_MAX if the error is not about one copy.
// The copies before it are in the stream. During a capture the batch fails with
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the capture goes on without it.
Error CopyBatch(const std::vector<RunWithAttributes>& runs, CUstream stream, DefaultStream meaning,
                std::size_t* failed);
// Same for boxes, in elements of the arrays involved, or bytes. `flags` must be 0.
Error CopyBatch(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count, unsigned long long flags,
                CUstream stream, DefaultStream meaning, std::size_t* failed);

// One copy, in any stream. Can be captured, unless its source must be read during the call.
Error CopyWithAttributes(const RunWithAttributes& run, CUstream stream, DefaultStream meaning);
Error CopyWithAttributes(const CUDA_MEMCPY3D_BATCH_OP& copy, unsigned long long flags,
                         CUstream stream, DefaultStream meaning);

}  // namespace cuspan
