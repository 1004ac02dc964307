#include "interpose/calls/texture.h"

#include "interpose/calls/base/object_table.h"

namespace cuspan {
namespace {

using Textures = ObjectTable<TextureRecord>;
// Values: their arrays.
using Surfaces = ObjectTable<std::uint64_t>;

// Returns the device holding all of [address, address + bytes), or null.
std::shared_ptr<ContextConnection> HolderOf(Session& session, std::uint64_t address,
                                            std::uint64_t bytes) {
  const PointerKind kind = session.addresses().Classify(HandleOf<const void*>(address));
  if (kind.kind != PointerKind::kDevice ||
      !session.addresses().Holds(HandleOf<const void*>(address), bytes))
    return nullptr;
  return session.addresses().ConnectionOf(HandleOf<const void*>(address));
}

// Finds the device holding the texture's data.
Error FindResource(Session& session, TextureResource* resource,
                   std::shared_ptr<ContextConnection>* connection) {
  switch (resource->kind) {
    case CU_RESOURCE_TYPE_ARRAY:
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const auto array = session.arrays().Find(resource->array);
      const bool mipmapped = resource->kind == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      if (array == nullptr || (array->levels != 0) != mipmapped) return CUDA_ERROR_INVALID_VALUE;
      resource->array = array->handle;
      resource->format = array->shape.format;
      *connection = array->connection;
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      *connection = HolderOf(session, resource->address, resource->width);
      break;
    case CU_RESOURCE_TYPE_PITCH2D: {
      std::uint64_t bytes = 0;
      if (resource->height != 0 &&
          __builtin_mul_overflow(resource->pitch, resource->height - 1, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
      *connection = HolderOf(session, resource->address, bytes);
      break;
    }
    default:
      break;
  }
  return *connection == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

bool IsInteger(std::uint32_t format) {
  return format != CU_AD_FORMAT_FLOAT && format != CU_AD_FORMAT_HALF;
}

Error CreateTexture(TextureRecord record, std::uint64_t* object) {
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(FindResource(session, &record.resource, &connection));
    // Elements other than integers are read unchanged in either mode.
    if (!IsInteger(record.resource.format)) record.sampling.flags &= ~CU_TRSF_READ_AS_INTEGER;
    // Integers read unchanged cannot be interpolated.
    if ((record.sampling.flags & CU_TRSF_READ_AS_INTEGER) != 0 &&
        record.sampling.filter == CU_TR_FILTER_MODE_LINEAR) {
      return cudaErrorInvalidFilterSetting;
    }
    TextureCreate op;
    op.resource = record.resource;
    op.sampling = record.sampling;
    op.viewed = record.view.has_value();
    if (record.view) op.view = *record.view;
    TextureCreate::Reply reply;
    CUSPAN_RETURN_IF_FAILED(connection->Call(op, &reply));
    session.TableOf<Textures>().Add(*connection, reply.object, record);
    *object = reply.object;
    return CUDA_SUCCESS;
  });
}

Error DestroyTexture(std::uint64_t object) {
  return WithSession([&](Session& session) -> Error {
    if (object == 0) return CUDA_SUCCESS;
    const auto found = session.TableOf<Textures>().Find(session, object, true);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    TextureDestroy op;
    op.object = object;
    return found->connection->Post(op);
  });
}

Error FindTexture(std::uint64_t object, TextureRecord* record) {
  return WithSession([&](Session& session) -> Error {
    const auto found = session.TableOf<Textures>().Find(session, object);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *record = found->value;
    return CUDA_SUCCESS;
  });
}

Error CreateSurface(std::uint64_t array, std::uint64_t* object) {
  return WithSession([&](Session& session) -> Error {
    const auto found = session.arrays().Find(array);
    if (found == nullptr || found->levels != 0) return CUDA_ERROR_INVALID_VALUE;
    SurfaceCreate op;
    op.array = found->handle;
    SurfaceCreate::Reply reply;
    CUSPAN_RETURN_IF_FAILED(found->connection->Call(op, &reply));
    session.TableOf<Surfaces>().Add(*found->connection, reply.object, array);
    *object = reply.object;
    return CUDA_SUCCESS;
  });
}

Error DestroySurface(std::uint64_t object) {
  return WithSession([&](Session& session) -> Error {
    if (object == 0) return CUDA_SUCCESS;
    const auto found = session.TableOf<Surfaces>().Find(session, object, true);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    SurfaceDestroy op;
    op.object = object;
    return found->connection->Post(op);
  });
}

Error ArrayOfSurface(std::uint64_t object, std::uint64_t* array) {
  return WithSession([&](Session& session) -> Error {
    const auto found = session.TableOf<Surfaces>().Find(session, object);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *array = found->value;
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
