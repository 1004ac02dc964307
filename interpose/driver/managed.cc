// Managed memory: prefetches, advice and their queries.
#include "interpose/calls/managed.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// `device`: a device, or CU_DEVICE_CPU.
CUmemLocation LocationOf(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

CUresult PrefetchTo(CUdeviceptr memory, std::size_t bytes, const CUmemLocation& location,
                    unsigned flags, CUstream stream, DefaultStream meaning) {
  return InHostFunctionsToo(stream, [&] {
    return AnswerInContext([&](Session&) {
      return Prefetch(HandleOf<const void*>(memory), bytes, location, flags, stream, meaning);
    });
  });
}

CUresult PrefetchAll(const CUdeviceptr* memory, const std::size_t* sizes, std::size_t count,
                     const CUmemLocation* places, const std::size_t* first, std::size_t groups,
                     unsigned long long flags, CUstream stream, DefaultStream meaning) {
  return AnswerInContext([&](Session&) -> Error {
    if (places == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<ManagedRange> ranges;
    CUSPAN_RETURN_IF_FAILED(RangesOf(
        memory, sizes, count, first, groups, [&](std::size_t group) { return places[group]; },
        &ranges));
    return PrefetchBatch(ranges, flags, stream, meaning);
  });
}

CUresult DiscardAll(const CUdeviceptr* memory, const std::size_t* sizes, std::size_t count,
                    unsigned long long flags, CUstream stream, DefaultStream meaning) {
  return AnswerInContext([&](Session&) -> Error {
    std::vector<ManagedRange> ranges;
    CUSPAN_RETURN_IF_FAILED(RangesOf(memory, sizes, count, &ranges));
    return PrefetchBatch(ranges, flags, stream, meaning);
  });
}

CUresult AdviseAbout(CUdeviceptr memory, std::size_t bytes, CUmem_advise advice,
                     const CUmemLocation& location) {
  return AnswerInContext(
      [&](Session&) { return Advise(HandleOf<const void*>(memory), bytes, advice, location); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cuMemPrefetchAsync_v2, _ptsz,
                    (CUdeviceptr memory, std::size_t bytes, CUmemLocation location, unsigned flags,
                     CUstream stream),
                    PrefetchTo(memory, bytes, location, flags, stream, meaning))
#undef cuMemPrefetchAsync
CUSPAN_EXPORT_TWINS(cuMemPrefetchAsync, _ptsz,
                    (CUdeviceptr memory, std::size_t bytes, CUdevice device, CUstream stream),
                    PrefetchTo(memory, bytes, LocationOf(device), 0, stream, meaning))

CUSPAN_EXPORT_TWINS(cuMemPrefetchBatchAsync, _ptsz,
                    (CUdeviceptr * memory, std::size_t* sizes, std::size_t count,
                     CUmemLocation* places, std::size_t* first, std::size_t groups,
                     unsigned long long flags, CUstream stream),
                    PrefetchAll(memory, sizes, count, places, first, groups, flags, stream,
                                meaning))
CUSPAN_EXPORT_TWINS(cuMemDiscardBatchAsync, _ptsz,
                    (CUdeviceptr * memory, std::size_t* sizes, std::size_t count,
                     unsigned long long flags, CUstream stream),
                    DiscardAll(memory, sizes, count, flags, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemDiscardAndPrefetchBatchAsync, _ptsz,
                    (CUdeviceptr * memory, std::size_t* sizes, std::size_t count,
                     CUmemLocation* places, std::size_t* first, std::size_t groups,
                     unsigned long long flags, CUstream stream),
                    PrefetchAll(memory, sizes, count, places, first, groups, flags, stream,
                                meaning))

CUSPAN_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr memory, std::size_t bytes, CUmem_advise advice,
                                      CUmemLocation location) {
  return AdviseAbout(memory, bytes, advice, location);
}
#undef cuMemAdvise
CUSPAN_EXPORT CUresult cuMemAdvise(CUdeviceptr memory, std::size_t bytes, CUmem_advise advice,
                                   CUdevice device) {
  return AdviseAbout(memory, bytes, advice, LocationOf(device));
}

CUSPAN_EXPORT CUresult cuMemRangeGetAttribute(void* data, std::size_t data_bytes,
                                              CUmem_range_attribute attribute, CUdeviceptr memory,
                                              std::size_t bytes) {
  return AnswerInContext([&](Session& session) {
    return RangeAttribute(session, data, data_bytes, attribute, HandleOf<const void*>(memory),
                          bytes);
  });
}

CUSPAN_EXPORT CUresult cuMemRangeGetAttributes(void** data, std::size_t* data_bytes,
                                               CUmem_range_attribute* attributes, std::size_t count,
                                               CUdeviceptr memory, std::size_t bytes) {
  return AnswerInContext([&](Session& session) -> Error {
    if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      CUSPAN_RETURN_IF_FAILED(RangeAttribute(session, data[i], data_bytes[i], attributes[i],
                                             HandleOf<const void*>(memory), bytes));
    }
    return CUDA_SUCCESS;
  });
}
