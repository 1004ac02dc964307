// Memory allocated by graphs.
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return GetGraphMemory(device, static_cast<CUgraphMem_attribute>(attribute),
                          static_cast<std::uint64_t*>(value));
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return SetGraphMemory(device, static_cast<CUgraphMem_attribute>(attribute),
                          *static_cast<std::uint64_t*>(value));
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return Answer([&] { return TrimGraphMemory(device); });
}
