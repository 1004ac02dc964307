// Copies that are asked for together, and copies with attributes. Those of a batch are made in
// their stream one behind the other: one of the orders that CUDA allows.
#pragma once

#include <vector>

#include "interpose/calls/batch.h"
#include "interpose/calls/copy_box.h"

namespace cuspan {

// A copy of one run of bytes.
struct RunWithAttributes {
  void* destination;
  const void* source;
  std::size_t bytes;
  CUmemcpyAttributes attributes;
};

// The lists that a program gives: an element of the first three for each copy, and of
// `first_copies` for each group of copies with the same attributes. Places are pointers or
// CUdeviceptr.
template <typename Destination, typename Source>
struct RunLists {
  const Destination* destinations;
  const Source* sources;
  const std::size_t* sizes;
  std::size_t copies;
  const std::size_t* first_copies;
  std::size_t groups;
};

// The copies of the lists; attributes_of(group) → CUmemcpyAttributes. CUDA_ERROR_INVALID_VALUE for
// lists that are missing or empty, and for groups that are none.
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

// *failed, which may be null, is the copy that failed, or SIZE_MAX where none is to blame: those
// before it are in the stream then. A capture of the stream goes on without the batch, which fails
// with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
Error CopyBatch(const std::vector<RunWithAttributes>& runs, CUstream stream, DefaultStream meaning,
                std::size_t* failed);
// The same of boxes, in elements of the arrays that take part, or bytes. `flags` must be 0.
Error CopyBatch(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count, unsigned long long flags,
                CUstream stream, DefaultStream meaning, std::size_t* failed);

// One copy, in any stream. It can be captured, unless its source is to be read during the call.
Error CopyWithAttributes(const RunWithAttributes& run, CUstream stream, DefaultStream meaning);
Error CopyWithAttributes(const CUDA_MEMCPY3D_BATCH_OP& copy, unsigned long long flags,
                         CUstream stream, DefaultStream meaning);

}  // namespace cuspan
