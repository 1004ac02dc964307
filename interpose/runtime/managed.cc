// Managed memory: allocation, and hints about its use.
#include "interpose/calls/managed.h"

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {
namespace {

// The numbers are equal.
CUmem_advise DriversOf(cudaMemoryAdvise advice) { return static_cast<CUmem_advise>(advice); }
CUmem_range_attribute DriversOf(cudaMemRangeAttribute attribute) {
  return static_cast<CUmem_range_attribute>(attribute);
}

CUmemLocation At(CUmemLocationType type, int id) {
  CUmemLocation location{};
  location.type = type;
  location.id = id;
  return location;
}

// Converts locations of functions before CUDA 13.
CUmemLocation LocationOf(int device) {
  if (device == cudaCpuDeviceId) return At(CU_MEM_LOCATION_TYPE_HOST, 0);
  return At(CU_MEM_LOCATION_TYPE_DEVICE, device);
}

// CUDA 13's functions have the names of CUDA 12's, with other parameters. The program's libcudart
// tells them apart. `place` is an int or a cudaMemLocation in one register.
CUmemLocation UnpackLocation(std::uint64_t place, bool before_13) {
  if (before_13) return LocationOf(static_cast<int>(place));
  return At(static_cast<CUmemLocationType>(place & 0xffff'ffff), static_cast<int>(place >> 32));
}

Error PrefetchOf(const void* memory, std::size_t bytes, std::uint64_t place, std::uint64_t fourth,
                 cudaStream_t fifth, bool before_13, DefaultStream meaning) {
  if (before_13) {
    return Prefetch(memory, bytes, UnpackLocation(place, true), 0, HandleOf<cudaStream_t>(fourth),
                    meaning);
  }
  return Prefetch(memory, bytes, UnpackLocation(place, false), static_cast<unsigned>(fourth), fifth,
                  meaning);
}

Error PrefetchAll(void* const* memory, const std::size_t* sizes, std::size_t count,
                  const cudaMemLocation* places, const std::size_t* first, std::size_t groups,
                  unsigned long long flags, cudaStream_t stream, DefaultStream meaning) {
  if (places == nullptr) return cudaErrorInvalidValue;
  std::vector<ManagedRange> ranges;
  CUSPAN_RETURN_IF_FAILED(RangesOf(
      memory, sizes, count, first, groups,
      [&](std::size_t group) { return SameBytes<CUmemLocation>(places[group]); }, &ranges));
  return PrefetchBatch(ranges, flags, stream, meaning);
}

Error DiscardAll(void* const* memory, const std::size_t* sizes, std::size_t count,
                 unsigned long long flags, cudaStream_t stream, DefaultStream meaning) {
  std::vector<ManagedRange> ranges;
  CUSPAN_RETURN_IF_FAILED(RangesOf(memory, sizes, count, &ranges));
  return PrefetchBatch(ranges, flags, stream, meaning);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaMallocManaged(void** memory, std::size_t bytes, unsigned flags) {
  return Answer([&]() -> Error {
    if (memory == nullptr) return cudaErrorInvalidValue;
    std::uint64_t address = 0;
    CUSPAN_RETURN_IF_FAILED(AllocateManaged(bytes, flags, &address));
    *memory = HandleOf<void*>(address);
    return cudaSuccess;
  });
}

// CUDA 13's header declares the names differently, so C++ names of our own are used.
CUSPAN_EXPORT cudaError_t CuspanMemPrefetch(const void* memory, std::size_t bytes,
                                            std::uint64_t place, std::uint64_t fourth,
                                            cudaStream_t fifth) __asm__("cudaMemPrefetchAsync");
CUSPAN_EXPORT cudaError_t CuspanMemPrefetch(const void* memory, std::size_t bytes,
                                            std::uint64_t place, std::uint64_t fourth,
                                            cudaStream_t fifth) {
  const bool before_13 = CallerIsBefore13(__builtin_return_address(0));
  return Answer([&] {
    return PrefetchOf(memory, bytes, place, fourth, fifth, before_13, DefaultStream::kLegacy);
  });
}
CUSPAN_EXPORT cudaError_t CuspanMemPrefetchPerThread(
    const void* memory, std::size_t bytes, std::uint64_t place, std::uint64_t fourth,
    cudaStream_t fifth) __asm__("cudaMemPrefetchAsync_ptsz");
CUSPAN_EXPORT cudaError_t CuspanMemPrefetchPerThread(const void* memory, std::size_t bytes,
                                                     std::uint64_t place, std::uint64_t fourth,
                                                     cudaStream_t fifth) {
  const bool before_13 = CallerIsBefore13(__builtin_return_address(0));
  return Answer([&] {
    return PrefetchOf(memory, bytes, place, fourth, fifth, before_13, DefaultStream::kPerThread);
  });
}
CUSPAN_EXPORT_TWINS(cudaMemPrefetchAsync_v2, _ptsz,
                    (const void* memory, std::size_t bytes, cudaMemLocation location,
                     unsigned flags, cudaStream_t stream),
                    Answer([&] {
                      return Prefetch(memory, bytes, SameBytes<CUmemLocation>(location), flags,
                                      stream, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemPrefetchBatchAsync, _ptsz,
                    (void** memory, std::size_t* sizes, std::size_t count, cudaMemLocation* places,
                     std::size_t* first, std::size_t groups, unsigned long long flags,
                     cudaStream_t stream),
                    Answer([&] {
                      return PrefetchAll(memory, sizes, count, places, first, groups, flags, stream,
                                         meaning);
                    }))
CUSPAN_EXPORT_TWINS(cudaMemDiscardBatchAsync, _ptsz,
                    (void** memory, std::size_t* sizes, std::size_t count, unsigned long long flags,
                     cudaStream_t stream),
                    Answer([&] {
                      return DiscardAll(memory, sizes, count, flags, stream, meaning);
                    }))
CUSPAN_EXPORT_TWINS(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
                    (void** memory, std::size_t* sizes, std::size_t count, cudaMemLocation* places,
                     std::size_t* first, std::size_t groups, unsigned long long flags,
                     cudaStream_t stream),
                    Answer([&] {
                      return PrefetchAll(memory, sizes, count, places, first, groups, flags, stream,
                                         meaning);
                    }))

CUSPAN_EXPORT cudaError_t CuspanMemAdvise(const void* memory, std::size_t bytes,
                                          cudaMemoryAdvise advice,
                                          std::uint64_t place) __asm__("cudaMemAdvise");
CUSPAN_EXPORT cudaError_t CuspanMemAdvise(const void* memory, std::size_t bytes,
                                          cudaMemoryAdvise advice, std::uint64_t place) {
  const bool before_13 = CallerIsBefore13(__builtin_return_address(0));
  return AnswerUnlessFaulted(
      [&] { return Advise(memory, bytes, DriversOf(advice), UnpackLocation(place, before_13)); });
}
CUSPAN_EXPORT cudaError_t cudaMemAdvise_v2(const void* memory, std::size_t bytes,
                                           cudaMemoryAdvise advice, cudaMemLocation location) {
  return AnswerUnlessFaulted(
      [&] { return Advise(memory, bytes, DriversOf(advice), SameBytes<CUmemLocation>(location)); });
}

CUSPAN_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t data_bytes,
                                                   cudaMemRangeAttribute attribute,
                                                   const void* memory, std::size_t bytes) {
  return AnswerUnlessFaulted([&] {
    return WithSession([&](Session& session) {
      return RangeAttribute(session, data, data_bytes, DriversOf(attribute), memory, bytes);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* data_bytes,
                                                    cudaMemRangeAttribute* attributes,
                                                    std::size_t count, const void* memory,
                                                    std::size_t bytes) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
      return cudaErrorInvalidValue;
    }
    return WithSession([&](Session& session) -> Error {
      for (std::size_t i = 0; i < count; ++i) {
        CUSPAN_RETURN_IF_FAILED(RangeAttribute(session, data[i], data_bytes[i],
                                               DriversOf(attributes[i]), memory, bytes));
      }
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT_TWINS(cudaStreamAttachMemAsync, _ptsz,
                    (cudaStream_t stream, void* memory, std::size_t bytes, unsigned flags),
                    Answer([&] { return AttachManaged(memory, bytes, flags, stream, meaning); }))
