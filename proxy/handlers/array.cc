// Arrays and mipmapped arrays.
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

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

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const ArrayCreate& op) {
  CUSPAN_RETURN_IF_ERROR(session.arrays.CheckNew(op.array));
  return OnWorker<ArrayCreate>(session, origin, [&session, op] {
    auto array = std::make_shared<Array>();
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = Descriptor(op.shape);
    CUresult result = session.faults.Check(
        op.levels == 0
            ? session.driver.cuArray3DCreate(&array->driver, &descriptor)
            : session.driver.cuMipmappedArrayCreate(&array->mipmap, &descriptor, op.levels));
    if (result == CUDA_SUCCESS && !session.arrays.Add(op.array, std::move(array)))
      result = CUDA_ERROR_INVALID_HANDLE;
    return result;
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayOfLevel& op) {
  CUSPAN_RETURN_IF_ERROR(session.arrays.CheckNew(op.array));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> mipmap, session.arrays.Get(op.mipmap));
  if (mipmap->mipmap == nullptr) return Status::Invalid("array 0x{:x} has no levels", op.mipmap);
  auto level = std::make_shared<Array>();
  const CUresult result =
      session.driver.cuMipmappedArrayGetLevel(&level->driver, mipmap->mipmap, op.level);
  if (result != CUDA_SUCCESS) {
    session.faults.Posted(origin, result);
    return Status::Ok();
  }
  level->whole = std::move(mipmap);
  session.arrays.Add(op.array, std::move(level));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Array> array, session.arrays.Take(op.array));
  if (array->whole != nullptr) return Status::Ok();
  return OnWorkerWhenDone<ArrayDestroy>(session, origin, [&session, array](CUresult) {
    return array->mipmap != nullptr ? session.driver.cuMipmappedArrayDestroy(array->mipmap)
                                    : session.driver.cuArrayDestroy(array->driver);
  });
}

}  // namespace cuspan::proxy
