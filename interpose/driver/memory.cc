// Device memory.
#include "interpose/calls/memory.h"

#include <limits>

#include "interpose/calls/device.h"
#include "interpose/calls/managed.h"
#include "interpose/calls/pool.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

CUresult AllocateRows(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t rows,
                      unsigned element_bytes) {
  return AnswerInContext([&](Session& session) -> Error {
    // Limit of copies for width and rows.
    constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
    if (address == nullptr || pitch == nullptr || width == 0 || rows == 0 || width > kMost ||
        rows > kMost || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
      return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(AllocatePitched(session, width, rows, pitch, &made));
    *address = made;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return AnswerInContext([&](Session& session) -> Error {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(Allocate(session, bytes, &made));
    *address = made;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch,
                                          std::size_t width, std::size_t rows,
                                          unsigned element_bytes) {
  return AllocateRows(address, pitch, width, rows, element_bytes);
}

CUSPAN_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  return AnswerInAny([&](Session& session) -> Error {
    if (address == 0) return CUDA_SUCCESS;
    return Free(session, address);
  });
}

CUSPAN_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned flags) {
  return AnswerInContext([&](Session&) -> Error {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(AllocateManaged(bytes, flags, &made));
    *address = made;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) {
    return GetMemoryInfo(session, connection, free, total);
  });
}

CUSPAN_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes,
                                               CUdeviceptr address) {
  return AnswerInContext([&](Session& session) -> Error {
    const PointerKind kind = session.addresses().Classify(HandleOf<const void*>(address));
    if (kind.kind == PointerKind::kUnknownHost || kind.range_bytes == 0)
      return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = kind.range_base;
    if (bytes != nullptr) *bytes = kind.range_bytes;
    return CUDA_SUCCESS;
  });
}

// --- In stream order

CUSPAN_EXPORT_TWINS(cuMemAllocAsync, _ptsz,
                    (CUdeviceptr * address, std::size_t bytes, CUstream stream),
                    AnswerInContext([&](Session&) -> Error {
                      if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
                      std::uint64_t made = 0;
                      const Error result =
                          AllocateInOrder(bytes, std::nullopt, stream, meaning, &made);
                      *address = made;
                      return result;
                    }))

CUSPAN_EXPORT_TWINS(cuMemAllocFromPoolAsync, _ptsz,
                    (CUdeviceptr * address, std::size_t bytes, CUmemoryPool pool, CUstream stream),
                    AnswerInContext([&](Session&) -> Error {
                      if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
                      std::uint64_t made = 0;
                      const Error result = AllocateInOrder(bytes, pool, stream, meaning, &made);
                      *address = made;
                      return result;
                    }))

CUSPAN_EXPORT_TWINS(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream),
                    AnswerInContext([&](Session&) -> Error {
                      return FreeInOrder(HandleOf<void*>(address), stream, meaning);
                    }))
