// Managed memory: allocation, and the hints about where it is used.
#include <array>
#include <cstring>

#include "interpose/client/thread_state.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

Error AllocateManaged(void** memory, std::size_t bytes, unsigned flags) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    *memory = nullptr;
    // As the vendor's runtime has it (measured); CUDA's text says that it is an error.
    if (bytes == 0) return cudaSuccess;
    std::uint64_t address = 0;
    const CUresult result = session.AllocateManaged(bytes, &address);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      return NotSupported("managed memory in a process in which its address range is in use");
    }
    CUSPAN_RETURN_IF_FAILED(result);
    *memory = HandleOf<void*>(address);
    return cudaSuccess;
  });
}

// All of the range must be managed memory of one allocation.
Error CheckManaged(Session& session, const void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const Session::PointerKind kind = session.Classify(memory);
  if (kind.kind != Session::PointerKind::kManaged ||
      bytes > kind.range_bytes - (NumberOf(memory) - kind.range_base)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

Error CheckLocation(const Session& session, const cudaMemLocation& location) {
  switch (location.type) {
    case cudaMemLocationTypeDevice:
      return location.id >= 0 && location.id < session.device_count() ? cudaSuccess
                                                                      : cudaErrorInvalidDevice;
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNumaCurrent:
      return cudaSuccess;
    case cudaMemLocationTypeHostNuma:
      return location.id >= 0 ? cudaSuccess : cudaErrorInvalidDevice;
    default:
      return cudaErrorInvalidValue;
  }
}

// As functions before CUDA 13 name places.
cudaMemLocation LocationOf(int device) {
  if (device == cudaCpuDeviceId) return {cudaMemLocationTypeHost, 0};
  return {cudaMemLocationTypeDevice, device};
}

Error Prefetch(const void* memory, std::size_t bytes, const cudaMemLocation& location,
               unsigned flags, cudaStream_t stream, DefaultStream meaning) {
  if (flags != 0) return cudaErrorInvalidValue;
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
    CUSPAN_RETURN_IF_FAILED(CheckLocation(session, location));
    session.advice().Prefetched(NumberOf(memory), bytes, {location.type, location.id});
    // What the host wrote can go ahead of the kernels that need it. Towards the host a hint is
    // for nothing: its accesses fetch what they need.
    if (location.type != cudaMemLocationTypeDevice) return cudaSuccess;
    if (location.id != target.link->device()) return cudaSuccess;
    return session.shared().mirrors().BeforeWork(*target.link);
  });
}

Error Advise(const void* memory, std::size_t bytes, cudaMemoryAdvise advice,
             const cudaMemLocation& location) {
  return WithSession([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
    const bool placed = advice == cudaMemAdviseSetPreferredLocation ||
                        advice == cudaMemAdviseSetAccessedBy ||
                        advice == cudaMemAdviseUnsetAccessedBy;
    if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy) {
      return cudaErrorInvalidValue;
    }
    if (placed) CUSPAN_RETURN_IF_FAILED(CheckLocation(session, location));
    session.advice().Advise(NumberOf(memory), bytes, static_cast<CUmem_advise>(advice),
                            {location.type, location.id});
    return cudaSuccess;
  });
}

int DeviceNumber(const MemoryAdvice::Place& place) {
  switch (place.type) {
    case cudaMemLocationTypeDevice:
      return place.id;
    case cudaMemLocationTypeHost:
      return cudaCpuDeviceId;
    default:
      return cudaInvalidDeviceId;
  }
}

Error RangeAttribute(Session& session, void* data, std::size_t data_bytes,
                     cudaMemRangeAttribute attribute, const void* memory, std::size_t bytes) {
  if (data == nullptr || data_bytes == 0 || data_bytes % sizeof(int) != 0) {
    return cudaErrorInvalidValue;
  }
  CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
  if (attribute != cudaMemRangeAttributeAccessedBy && data_bytes != sizeof(int)) {
    return cudaErrorInvalidValue;
  }
  const MemoryAdvice::Entry entry = session.advice().Common(NumberOf(memory), bytes);
  auto* const out = static_cast<int*>(data);
  switch (attribute) {
    case cudaMemRangeAttributeReadMostly:
      *out = entry.read_mostly ? 1 : 0;
      return cudaSuccess;
    case cudaMemRangeAttributePreferredLocation:
      *out = DeviceNumber(entry.preferred);
      return cudaSuccess;
    case cudaMemRangeAttributeLastPrefetchLocation:
      *out = DeviceNumber(entry.prefetched);
      return cudaSuccess;
    case cudaMemRangeAttributeAccessedBy: {
      std::size_t at = 0;
      for (const int device : entry.accessed_by) {
        if (at < data_bytes / sizeof(int)) out[at++] = device;
      }
      while (at < data_bytes / sizeof(int)) out[at++] = cudaInvalidDeviceId;
      return cudaSuccess;
    }
    case cudaMemRangeAttributePreferredLocationType:
      *out = entry.preferred.type;
      return cudaSuccess;
    case cudaMemRangeAttributePreferredLocationId:
      *out = entry.preferred.id;
      return cudaSuccess;
    case cudaMemRangeAttributeLastPrefetchLocationType:
      *out = entry.prefetched.type;
      return cudaSuccess;
    case cudaMemRangeAttributeLastPrefetchLocationId:
      *out = entry.prefetched.id;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

// Whom the memory belongs to for the time being changes nothing for us: the host may look at
// managed memory at any time.
Error Attach(void* memory, std::size_t bytes, unsigned flags, cudaStream_t stream,
             DefaultStream meaning) {
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget&) -> Error {
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost &&
        flags != cudaMemAttachSingle) {
      return cudaErrorInvalidValue;
    }
    const Session::PointerKind kind = session.Classify(memory);
    if (memory == nullptr || kind.kind != Session::PointerKind::kManaged ||
        NumberOf(memory) != kind.range_base || (bytes != 0 && bytes != kind.range_bytes)) {
      return cudaErrorInvalidValue;
    }
    // To one stream, which must have a name.
    if (flags == cudaMemAttachSingle && NumberOf(stream) <= 1) return cudaErrorInvalidValue;
    return cudaSuccess;
  });
}

// The forms of CUDA 13 have the names of CUDA 12's with other parameters: which was meant is
// known by the program's libcudart. `place` is an int or a cudaMemLocation in one register.
cudaMemLocation PlaceOf(std::uint64_t place, bool before_13) {
  if (before_13) return LocationOf(static_cast<int>(place));
  return {static_cast<cudaMemLocationType>(place & 0xffff'ffff), static_cast<int>(place >> 32)};
}

Error PrefetchOf(const void* memory, std::size_t bytes, std::uint64_t place, std::uint64_t fourth,
                 cudaStream_t fifth, bool before_13, DefaultStream meaning) {
  if (before_13) {
    return Prefetch(memory, bytes, PlaceOf(place, true), 0, HandleOf<cudaStream_t>(fourth),
                    meaning);
  }
  return Prefetch(memory, bytes, PlaceOf(place, false), static_cast<unsigned>(fourth), fifth,
                  meaning);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaMallocManaged(void** memory, std::size_t bytes, unsigned flags) {
  return Answer([&] { return AllocateManaged(memory, bytes, flags); });
}

// Declared otherwise in CUDA 13's header, with which the names are ours alone here.
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
                      return Prefetch(memory, bytes, location, flags, stream, meaning);
                    }))

CUSPAN_EXPORT cudaError_t CuspanMemAdvise(const void* memory, std::size_t bytes,
                                          cudaMemoryAdvise advice,
                                          std::uint64_t place) __asm__("cudaMemAdvise");
CUSPAN_EXPORT cudaError_t CuspanMemAdvise(const void* memory, std::size_t bytes,
                                          cudaMemoryAdvise advice, std::uint64_t place) {
  const bool before_13 = CallerIsBefore13(__builtin_return_address(0));
  return Answer([&] { return Advise(memory, bytes, advice, PlaceOf(place, before_13)); });
}
CUSPAN_EXPORT cudaError_t cudaMemAdvise_v2(const void* memory, std::size_t bytes,
                                           cudaMemoryAdvise advice, cudaMemLocation location) {
  return Answer([&] { return Advise(memory, bytes, advice, location); });
}

CUSPAN_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t data_bytes,
                                                   cudaMemRangeAttribute attribute,
                                                   const void* memory, std::size_t bytes) {
  return Answer([&] {
    return WithSession([&](Session& session) {
      return RangeAttribute(session, data, data_bytes, attribute, memory, bytes);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* data_bytes,
                                                    cudaMemRangeAttribute* attributes,
                                                    std::size_t count, const void* memory,
                                                    std::size_t bytes) {
  return Answer([&]() -> Error {
    if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
      return cudaErrorInvalidValue;
    }
    return WithSession([&](Session& session) -> Error {
      for (std::size_t i = 0; i < count; ++i) {
        CUSPAN_RETURN_IF_FAILED(
            RangeAttribute(session, data[i], data_bytes[i], attributes[i], memory, bytes));
      }
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT_TWINS(cudaStreamAttachMemAsync, _ptsz,
                    (cudaStream_t stream, void* memory, std::size_t bytes, unsigned flags),
                    Answer([&] { return Attach(memory, bytes, flags, stream, meaning); }))
