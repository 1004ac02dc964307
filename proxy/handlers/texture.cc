// Texture and surface objects: access of kernels to arrays.
#include "protocol/api/texture_descriptions.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {
namespace {

// Converts the resource to the driver's format; kInvalid if it is invalid.
Result<CUDA_RESOURCE_DESC> Describe(DeviceSession& session, const TextureResource& resource) {
  CUDA_RESOURCE_DESC out{};
  out.resType = static_cast<CUresourcetype>(resource.kind);
  const auto format = static_cast<CUarray_format>(resource.format);
  switch (out.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> array,
                              session.objects().arrays.Get(resource.array));
      const bool mipmapped = array->mipmap != nullptr;
      if (mipmapped != (out.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY))
        return Status::Invalid("array 0x{:x} does not have the kind of the texture",
                               resource.array);
      if (mipmapped)
        out.res.mipmap.hMipmappedArray = array->mipmap;
      else
        out.res.array.hArray = array->driver;
      return out;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      out.res.linear = {resource.address, format, resource.channels, resource.width};
      return out;
    case CU_RESOURCE_TYPE_PITCH2D:
      out.res.pitch2D = {resource.address, format,          resource.channels,
                         resource.width,   resource.height, resource.pitch};
      return out;
    default:
      return Status::Invalid("a texture of the unknown kind {}", resource.kind);
  }
}

// True if the client may read all memory of the texture.
bool MayShow(const DeviceSession& session, const TextureResource& resource) {
  switch (static_cast<CUresourcetype>(resource.kind)) {
    case CU_RESOURCE_TYPE_LINEAR:
      return session.memory().MayTouch(resource.address, resource.width);
    case CU_RESOURCE_TYPE_PITCH2D: {
      std::uint64_t bytes = 0;
      return !__builtin_mul_overflow(resource.pitch, resource.height == 0 ? 0 : resource.height - 1,
                                     &bytes) &&
             session.memory().MayTouch(resource.address, bytes);
    }
    default:
      return true;
  }
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const TextureCreate& op) {
  CUSPAN_ASSIGN_OR_RETURN(CUDA_RESOURCE_DESC resource, Describe(session, op.resource));
  if (!MayShow(session, op.resource)) {
    session.channel().Reply<TextureCreate>(origin.request, {CUDA_ERROR_INVALID_VALUE, 0});
    return Status::Ok();
  }
  return OnWorker<TextureCreate>(session, origin, [&session, op, resource = resource] {
    CUDA_TEXTURE_DESC sampling = SamplingAs<CUDA_TEXTURE_DESC>(op.sampling);
    sampling.flags = op.sampling.flags;
    const auto view = ViewAs<CUDA_RESOURCE_VIEW_DESC>(op.view);
    CUtexObject object = 0;
    const CUresult result = session.faults().Check(session.driver().cuTexObjectCreate(
        &object, &resource, &sampling, op.viewed ? &view : nullptr));
    if (result == CUDA_SUCCESS)
      session.objects().textures.Add(object, std::make_shared<Texture>(Texture{object}));
    return TextureCreate::Reply{result, object};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const TextureDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Texture> texture,
                          session.objects().textures.Take(op.object));
  return OnWorkerWhenDone<TextureDestroy>(session, origin, [&session, texture](CUresult) {
    return session.driver().cuTexObjectDestroy(texture->driver);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const SurfaceCreate& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> array, session.objects().arrays.Get(op.array));
  return OnWorker<SurfaceCreate>(session, origin, [&session, array] {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array->driver;
    CUsurfObject object = 0;
    const CUresult result =
        array->driver == nullptr
            ? CUDA_ERROR_INVALID_VALUE
            : session.faults().Check(session.driver().cuSurfObjectCreate(&object, &resource));
    if (result == CUDA_SUCCESS)
      session.objects().surfaces.Add(object, std::make_shared<Surface>(Surface{object}));
    return SurfaceCreate::Reply{result, object};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const SurfaceDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Surface> surface,
                          session.objects().surfaces.Take(op.object));
  return OnWorkerWhenDone<SurfaceDestroy>(session, origin, [&session, surface](CUresult) {
    return session.driver().cuSurfObjectDestroy(surface->driver);
  });
}

}  // namespace cuspan::proxy
