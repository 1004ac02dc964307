#include "interpose/client/arrays.h"

#include <algorithm>

#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

std::uint64_t FormatBytes(std::uint32_t format) {
  switch (static_cast<CUarray_format>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

// A level has half the size of the previous level, in each dimension except a count of layers.
ArrayShape ShapeOfLevel(ArrayShape shape, unsigned level) {
  const auto shrink = [&](std::uint64_t& size) {
    if (size != 0) size = std::max<std::uint64_t>(1, size >> level);
  };
  shrink(shape.width);
  shrink(shape.height);
  if ((shape.flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0) shrink(shape.depth);
  return shape;
}

}  // namespace

std::uint64_t Array::element_bytes() const { return FormatBytes(shape.format) * shape.channels; }

BoxExtent Array::extent() const {
  return {shape.width * element_bytes(), std::max<std::uint64_t>(1, shape.height),
          std::max<std::uint64_t>(1, shape.depth)};
}

CUresult Arrays::Create(const std::shared_ptr<ContextConnection>& connection,
                        const ArrayShape& shape, unsigned levels, std::uint64_t* array) {
  ArrayCreate op;
  op.array = NextHandle();
  op.shape = shape;
  op.levels = levels;
  ArrayCreate::Reply reply;
  if (const CUresult result = connection->Call(op, &reply); result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<const Array>(Array{op.array, connection, shape, levels});
  const WriterLock lock(mutex_);
  arrays_.emplace(op.array, std::move(made));
  *array = op.array;
  return CUDA_SUCCESS;
}

CUresult Arrays::LevelOf(std::uint64_t mipmap, unsigned level, std::uint64_t* array) {
  const WriterLock lock(mutex_);
  const auto whole = arrays_.find(mipmap);
  if (whole == arrays_.end() || whole->second->levels == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= whole->second->levels) return CUDA_ERROR_INVALID_VALUE;
  const auto known = std::find_if(arrays_.begin(), arrays_.end(), [&](const auto& entry) {
    return entry.second->mipmap == mipmap && entry.second->level == level;
  });
  if (known != arrays_.end()) {
    *array = known->first;
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<ContextConnection> connection = whole->second->connection;
  ArrayOfLevel op;
  op.array = NextHandle();
  op.mipmap = mipmap;
  op.level = level;
  if (const CUresult result = connection->Post(op); result != CUDA_SUCCESS) return result;
  const ArrayShape shape = ShapeOfLevel(whole->second->shape, level);
  arrays_.emplace(op.array, std::make_shared<const Array>(
                                Array{op.array, connection, shape, 0, mipmap, level}));
  *array = op.array;
  return CUDA_SUCCESS;
}

CUresult Arrays::Destroy(std::uint64_t array) {
  const WriterLock lock(mutex_);
  const auto known = arrays_.find(array);
  if (known == arrays_.end() || known->second->mipmap != 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<const Array> whole = known->second;
  CUresult result = CUDA_SUCCESS;
  std::erase_if(arrays_, [&](const auto& entry) {
    if (entry.first != array && entry.second->mipmap != array) return false;
    ArrayDestroy op;
    op.array = entry.first;
    if (const CUresult posted = whole->connection->Post(op); posted != CUDA_SUCCESS)
      result = posted;
    return true;
  });
  return result;
}

std::shared_ptr<const Array> Arrays::Find(std::uint64_t array) const {
  const ReaderLock lock(mutex_);
  const auto known = arrays_.find(array);
  return known == arrays_.end() ? nullptr : known->second;
}

void Arrays::Forget(const ContextConnection& ended) {
  const WriterLock lock(mutex_);
  std::erase_if(arrays_,
                [&](const auto& entry) { return entry.second->connection.get() == &ended; });
}

}  // namespace cuspan
