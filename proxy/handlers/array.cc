// Arrays and mipmapped arrays.
#include <algorithm>

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

// Minimum size of one channel (CUDA Driver API, CUarray_format). For compressed and planar formats,
// not listed here, it is about a byte.
std::uint64_t ChannelBytes(std::uint32_t format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 1;
  }
}

// Minimum size of the array; the driver's layout is not known.
std::uint64_t BytesOf(const ArrayShape& shape, std::uint32_t levels) {
  std::uint64_t bytes = 0;
  const std::uint64_t element = ChannelBytes(shape.format) * std::max(shape.channels, 1U);
  // Each level halves all dimensions, so there are at most as many levels as a dimension has bits.
  for (std::uint32_t level = 0; level < std::clamp(levels, 1U, 64U); ++level) {
    const auto size = [level](std::uint64_t whole) {
      return std::max<std::uint64_t>(whole >> level, 1);
    };
    std::uint64_t one = element;
    for (const std::uint64_t count : {size(shape.width), size(shape.height), size(shape.depth)})
      if (__builtin_mul_overflow(one, count, &one)) return ~std::uint64_t{0};
    if (__builtin_add_overflow(bytes, one, &bytes)) return ~std::uint64_t{0};
  }
  return bytes;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const ArrayCreate& op) {
  CUSPAN_RETURN_IF_ERROR(session.objects().arrays.CheckNew(op.array));
  return OnWorker<ArrayCreate>(session, origin, [&session, op] {
    auto array = std::make_shared<Array>();
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = Descriptor(op.shape);
    const std::uint64_t bytes = BytesOf(op.shape, op.levels);
    CUresult result = session.device().memory().Take(bytes, &array->taken, /*fixed=*/true);
    if (result != CUDA_SUCCESS) return result;
    result = session.device().memory().Obtain(bytes, [&] {
      return session.faults().Check(
          op.levels == 0
              ? session.driver().cuArray3DCreate(&array->driver, &descriptor)
              : session.driver().cuMipmappedArrayCreate(&array->mipmap, &descriptor, op.levels));
    });
    if (result == CUDA_SUCCESS && !session.objects().arrays.Add(op.array, std::move(array)))
      result = CUDA_ERROR_INVALID_HANDLE;
    return result;
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayOfLevel& op) {
  CUSPAN_RETURN_IF_ERROR(session.objects().arrays.CheckNew(op.array));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> mipmap, session.objects().arrays.Get(op.mipmap));
  if (mipmap->mipmap == nullptr) return Status::Invalid("array 0x{:x} has no levels", op.mipmap);
  auto level = std::make_shared<Array>();
  const CUresult result =
      session.driver().cuMipmappedArrayGetLevel(&level->driver, mipmap->mipmap, op.level);
  if (result != CUDA_SUCCESS) {
    session.faults().Posted(origin, result);
    return Status::Ok();
  }
  level->whole = std::move(mipmap);
  session.objects().arrays.Add(op.array, std::move(level));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ArrayDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Array> array,
                          session.objects().arrays.Take(op.array));
  if (array->whole != nullptr) return Status::Ok();
  return OnWorkerWhenDone<ArrayDestroy>(session, origin, [&session, array](CUresult) {
    return array->mipmap != nullptr ? session.driver().cuMipmappedArrayDestroy(array->mipmap)
                                    : session.driver().cuArrayDestroy(array->driver);
  });
}

}  // namespace cuspan::proxy
