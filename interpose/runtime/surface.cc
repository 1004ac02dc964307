// Surface objects: arrays that kernels write.
#include "interpose/calls/texture.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/texture.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object,
                                                  const cudaResourceDesc* resource) {
  return Answer([&]() -> Error {
    if (object == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray)
      return cudaErrorInvalidValue;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(CreateSurface(NumberOf(resource->res.array.array), &made));
    *object = made;
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return Answer([&] { return DestroySurface(object); });
}

CUSPAN_EXPORT cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* desc,
                                                           cudaSurfaceObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    std::uint64_t array = 0;
    CUSPAN_RETURN_IF_FAILED(ArrayOfSurface(object, &array));
    cudaResourceDesc whole{};
    whole.resType = cudaResourceTypeArray;
    whole.res.array.array = HandleOf<cudaArray_t>(array);
    CopyFirst(desc, &whole, BytesOf(whole, release));
    return cudaSuccess;
  });
}
