// Surface objects: arrays that kernels write.
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/object_table.h"
#include "interpose/runtime/texture.h"

namespace cuspan {
namespace {

ObjectTable<cudaResourceDesc>& Surfaces() {
  static auto* const table = new ObjectTable<cudaResourceDesc>;  // Never destroyed, as the session.
  return *table;
}

Error Create(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  if (object == nullptr || resource == nullptr) return cudaErrorInvalidValue;
  if (resource->resType != cudaResourceTypeArray) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    const auto array = session.arrays().Find(NumberOf(resource->res.array.array));
    if (array == nullptr || array->levels != 0 ||
        (array->shape.flags & cudaArraySurfaceLoadStore) == 0) {
      return cudaErrorInvalidValue;
    }
    SurfaceCreate op;
    op.array = array->handle;
    SurfaceCreate::Reply reply;
    CUSPAN_RETURN_IF_FAILED(array->link->Call(op, &reply));
    Surfaces().Add(*array->link, reply.object, *resource);
    *object = reply.object;
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object,
                                                  const cudaResourceDesc* resource) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (resource == nullptr) return cudaErrorInvalidValue;
    cudaResourceDesc whole{};
    CopyFirst(&whole, resource, BytesOf(*resource, release));
    return Create(object, &whole);
  });
}

CUSPAN_EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (object == 0) return cudaSuccess;
      const auto found = Surfaces().Find(session, object, true);
      if (!found) return cudaErrorInvalidValue;
      SurfaceDestroy op;
      op.object = object;
      return found->link->Post(op);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* desc,
                                                           cudaSurfaceObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      const auto found = Surfaces().Find(session, object);
      if (!found) return cudaErrorInvalidValue;
      CopyFirst(desc, &found->value, BytesOf(found->value, release));
      return cudaSuccess;
    });
  });
}
