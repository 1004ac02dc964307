// Arrays and mipmapped arrays, and the texture and surface objects that read and write them.
#include <algorithm>

#include "proxy/handlers/handlers.h"

namespace cuspan::proxy {
namespace {

CUDA_ARRAY3D_DESCRIPTOR Descriptor(const ArrayShape& shape) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = shape.width;
  descriptor.Height = shape.height;
  descriptor.Depth = shape.depth;
  descriptor.Format = static_cast<CUarray_format>(shape.format);
  descriptor.NumChannels = shape.channels;
  descriptor.Flags = shape.flags;
  return descriptor;
}

Result<std::shared_ptr<Array>> FindArray(DeviceSession& session, std::uint64_t handle) {
  std::shared_ptr<Array> array = session.arrays.Find(handle);
  if (array == nullptr) return Status::Invalid("array 0x{:x} does not exist", handle);
  return array;
}

// The resource as the driver takes it; kInvalid when it is none.
Result<CUDA_RESOURCE_DESC> Describe(DeviceSession& session, const TextureResource& resource) {
  CUDA_RESOURCE_DESC out{};
  out.resType = static_cast<CUresourcetype>(resource.kind);
  const auto format = static_cast<CUarray_format>(resource.format);
  switch (out.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      Result<std::shared_ptr<Array>> array = FindArray(session, resource.array);
      if (!array.ok()) return array.status();
      const bool mipmapped = (*array)->mipmap != nullptr;
      if (mipmapped != (out.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY))
        return Status::Invalid("array 0x{:x} is not of the kind that a texture is made of",
                               resource.array);
      if (mipmapped)
        out.res.mipmap.hMipmappedArray = (*array)->mipmap;
      else
        out.res.array.hArray = (*array)->driver;
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

// Whether the client may read all of the memory that a texture shows.
bool MayShow(const DeviceSession& session, const TextureResource& resource) {
  switch (static_cast<CUresourcetype>(resource.kind)) {
    case CU_RESOURCE_TYPE_LINEAR:
      return session.MayTouch(resource.address, resource.width);
    case CU_RESOURCE_TYPE_PITCH2D: {
      std::uint64_t bytes = 0;
      return !__builtin_mul_overflow(resource.pitch, resource.height == 0 ? 0 : resource.height - 1,
                                     &bytes) &&
             session.MayTouch(resource.address, bytes);
    }
    default:
      return true;
  }
}

CUDA_TEXTURE_DESC Describe(const TextureSampling& sampling) {
  CUDA_TEXTURE_DESC out{};
  for (std::size_t i = 0; i < sampling.address_modes.size(); ++i)
    out.addressMode[i] = static_cast<CUaddress_mode>(sampling.address_modes[i]);
  out.filterMode = static_cast<CUfilter_mode>(sampling.filter);
  out.flags = sampling.flags;
  out.maxAnisotropy = sampling.max_anisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(sampling.mipmap_filter);
  out.mipmapLevelBias = sampling.mipmap_bias;
  out.minMipmapLevelClamp = sampling.mipmap_least;
  out.maxMipmapLevelClamp = sampling.mipmap_most;
  std::copy(sampling.border.begin(), sampling.border.end(), out.borderColor);
  return out;
}

CUDA_RESOURCE_VIEW_DESC Describe(const TextureView& view) {
  CUDA_RESOURCE_VIEW_DESC out{};
  out.format = static_cast<CUresourceViewFormat>(view.format);
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.firstMipmapLevel = view.first_level;
  out.lastMipmapLevel = view.last_level;
  out.firstLayer = view.first_layer;
  out.lastLayer = view.last_layer;
  return out;
}

// Runs `destroy` on the worker when the device is done with what was posted before.
template <typename Destroy>
void DestroyWhenDone(DeviceSession& session, const Origin& origin, Destroy destroy) {
  session.WhenDeviceDone([&session, origin, destroy](CUresult, std::uint64_t) {
    session.worker.Run([&session, origin, destroy] { session.faults.Posted(origin, destroy()); });
  });
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const ArrayCreate& op) {
  if (op.array == 0 || session.arrays.Find(op.array) != nullptr)
    return Status::Invalid("array 0x{:x} is no new handle", op.array);
  session.worker.Run([&session, origin, op] {
    auto array = std::make_shared<Array>();
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = Descriptor(op.shape);
    CUresult result = session.faults.Check(
        op.levels == 0
            ? session.driver.cuArray3DCreate(&array->driver, &descriptor)
            : session.driver.cuMipmappedArrayCreate(&array->mipmap, &descriptor, op.levels));
    if (result == CUDA_SUCCESS && !session.arrays.Add(op.array, std::move(array)))
      result = CUDA_ERROR_INVALID_HANDLE;
    session.channel.Reply<ArrayCreate>(origin.request, {result});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayOfLevel& op) {
  Result<std::shared_ptr<Array>> mipmap = FindArray(session, op.mipmap);
  if (!mipmap.ok()) return mipmap.status();
  if ((*mipmap)->mipmap == nullptr) return Status::Invalid("array 0x{:x} has no levels", op.mipmap);
  auto level = std::make_shared<Array>();
  const CUresult result =
      session.driver.cuMipmappedArrayGetLevel(&level->driver, (*mipmap)->mipmap, op.level);
  if (result != CUDA_SUCCESS) {
    session.faults.Posted(origin, result);
    return Status::Ok();
  }
  level->whole = std::move(*mipmap);
  if (!session.arrays.Add(op.array, std::move(level)))
    return Status::Invalid("array 0x{:x} is no new handle", op.array);
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayDestroy& op) {
  std::shared_ptr<Array> array = session.arrays.Remove(op.array);
  if (array == nullptr) return Status::Invalid("array 0x{:x} does not exist", op.array);
  if (array->whole != nullptr) return Status::Ok();
  DestroyWhenDone(session, origin, [&session, array] {
    return array->mipmap != nullptr ? session.driver.cuMipmappedArrayDestroy(array->mipmap)
                                    : session.driver.cuArrayDestroy(array->driver);
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const TextureCreate& op) {
  Result<CUDA_RESOURCE_DESC> resource = Describe(session, op.resource);
  if (!resource.ok()) return resource.status();
  if (!MayShow(session, op.resource)) {
    session.channel.Reply<TextureCreate>(origin.request, {CUDA_ERROR_INVALID_VALUE, 0});
    return Status::Ok();
  }
  session.worker.Run([&session, origin, op, resource = *resource] {
    const CUDA_TEXTURE_DESC sampling = Describe(op.sampling);
    const CUDA_RESOURCE_VIEW_DESC view = Describe(op.view);
    CUtexObject object = 0;
    const CUresult result = session.faults.Check(session.driver.cuTexObjectCreate(
        &object, &resource, &sampling, op.viewed ? &view : nullptr));
    if (result == CUDA_SUCCESS)
      session.textures.Add(object, std::make_shared<Texture>(Texture{object}));
    session.channel.Reply<TextureCreate>(origin.request, {result, object});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const TextureDestroy& op) {
  const std::shared_ptr<Texture> texture = session.textures.Remove(op.object);
  if (texture == nullptr) return Status::Invalid("texture 0x{:x} does not exist", op.object);
  DestroyWhenDone(session, origin, [&session, object = texture->driver] {
    return session.driver.cuTexObjectDestroy(object);
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const SurfaceCreate& op) {
  Result<std::shared_ptr<Array>> array = FindArray(session, op.array);
  if (!array.ok()) return array.status();
  session.worker.Run([&session, origin, array = std::move(*array)] {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array->driver;
    CUsurfObject object = 0;
    const CUresult result =
        array->driver == nullptr
            ? CUDA_ERROR_INVALID_VALUE
            : session.faults.Check(session.driver.cuSurfObjectCreate(&object, &resource));
    if (result == CUDA_SUCCESS)
      session.surfaces.Add(object, std::make_shared<Surface>(Surface{object}));
    session.channel.Reply<SurfaceCreate>(origin.request, {result, object});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const SurfaceDestroy& op) {
  const std::shared_ptr<Surface> surface = session.surfaces.Remove(op.object);
  if (surface == nullptr) return Status::Invalid("surface 0x{:x} does not exist", op.object);
  DestroyWhenDone(session, origin, [&session, object = surface->driver] {
    return session.driver.cuSurfObjectDestroy(object);
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
