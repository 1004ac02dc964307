#include "proxy/softgpu/rt/texture.h"

#include <bit>
#include <cstring>

namespace cuspan::softgpu {
namespace {

// Handles contain this tag, a generation and an index, so a stale or invented one finds nothing.
constexpr std::uint64_t kTag = std::uint64_t{0x5009} << 48;
constexpr int kGenerationShift = 20;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kGenerationShift) - 1;
constexpr std::uint64_t kGenerationMask = (std::uint64_t{1} << 28) - 1;

template <typename T>
T LoadAs(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

std::uint32_t TexelFormat::channel_bytes() const {
  switch (channel) {
    case Channel::kU8:
    case Channel::kS8:
      return 1;
    case Channel::kU16:
    case Channel::kS16:
    case Channel::kF16:
      return 2;
    default:
      return 4;
  }
}

bool FormatOf(CUarray_format format, unsigned channels, TexelFormat* out) {
  const auto plain = [&](Channel channel) {
    *out = {channel, static_cast<std::uint8_t>(channels), false};
    return channels == 1 || channels == 2 || channels == 4;
  };
  // The format specifies the number of channels.
  const auto normalised = [&](Channel channel, unsigned has) {
    *out = {channel, static_cast<std::uint8_t>(has), true};
    return channels == has;
  };
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return plain(Channel::kU8);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return plain(Channel::kU16);
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return plain(Channel::kU32);
    case CU_AD_FORMAT_SIGNED_INT8:
      return plain(Channel::kS8);
    case CU_AD_FORMAT_SIGNED_INT16:
      return plain(Channel::kS16);
    case CU_AD_FORMAT_SIGNED_INT32:
      return plain(Channel::kS32);
    case CU_AD_FORMAT_HALF:
      return plain(Channel::kF16);
    case CU_AD_FORMAT_FLOAT:
      return plain(Channel::kF32);
    case CU_AD_FORMAT_UNORM_INT8X1:
      return normalised(Channel::kU8, 1);
    case CU_AD_FORMAT_UNORM_INT8X2:
      return normalised(Channel::kU8, 2);
    case CU_AD_FORMAT_UNORM_INT8X4:
      return normalised(Channel::kU8, 4);
    case CU_AD_FORMAT_UNORM_INT16X1:
      return normalised(Channel::kU16, 1);
    case CU_AD_FORMAT_UNORM_INT16X2:
      return normalised(Channel::kU16, 2);
    case CU_AD_FORMAT_UNORM_INT16X4:
      return normalised(Channel::kU16, 4);
    case CU_AD_FORMAT_SNORM_INT8X1:
      return normalised(Channel::kS8, 1);
    case CU_AD_FORMAT_SNORM_INT8X2:
      return normalised(Channel::kS8, 2);
    case CU_AD_FORMAT_SNORM_INT8X4:
      return normalised(Channel::kS8, 4);
    case CU_AD_FORMAT_SNORM_INT16X1:
      return normalised(Channel::kS16, 1);
    case CU_AD_FORMAT_SNORM_INT16X2:
      return normalised(Channel::kS16, 2);
    case CU_AD_FORMAT_SNORM_INT16X4:
      return normalised(Channel::kS16, 4);
    default:
      return false;
  }
}

ImageTable& ImageTable::Get() {
  static auto* const table = new ImageTable;  // Threads may use it while the process exits.
  return *table;
}

std::atomic<const ImageObject*>& ImageTable::Slot(std::uint32_t index) const {
  return (*chunks_[index / kChunk].load(std::memory_order_acquire))[index % kChunk];
}

std::uint64_t ImageTable::Add(std::shared_ptr<ImageObject> object) {
  std::lock_guard lock(mutex_);
  std::uint32_t index = used_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (used_ == kMost) return 0;
    if (used_ % kChunk == 0) chunks_[used_ / kChunk].store(new Chunk{}, std::memory_order_release);
    owners_.emplace_back();
    ++used_;
  }
  object->handle = kTag | (++generation_ & kGenerationMask) << kGenerationShift | index;
  const std::uint64_t handle = object->handle;
  Slot(index).store(object.get(), std::memory_order_release);
  owners_[index] = std::move(object);
  return handle;
}

const ImageObject* ImageTable::Find(std::uint64_t handle) const {
  const std::uint64_t index = handle & kIndexMask;
  if (index >= kMost) return nullptr;
  const Chunk* const chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  const ImageObject* const object = (*chunk)[index % kChunk].load(std::memory_order_acquire);
  return object != nullptr && object->handle == handle ? object : nullptr;
}

std::shared_ptr<const ImageObject> ImageTable::FindShared(std::uint64_t handle) const {
  std::lock_guard lock(mutex_);
  return Find(handle) == nullptr ? nullptr : owners_[handle & kIndexMask];
}

std::shared_ptr<const ImageObject> ImageTable::Remove(std::uint64_t handle) {
  std::lock_guard lock(mutex_);
  if (Find(handle) == nullptr) return nullptr;
  return RemoveLocked(static_cast<std::uint32_t>(handle & kIndexMask));
}

std::shared_ptr<const ImageObject> ImageTable::RemoveLocked(std::uint32_t index) {
  Slot(index).store(nullptr, std::memory_order_release);
  free_.push_back(index);
  return std::move(owners_[index]);
}

void LoadTexel(const TexelFormat& format, const std::uint8_t* texel, std::uint32_t out[4]) {
  for (unsigned c = 0; c < 4; ++c) {
    if (c >= format.channels) {
      const std::uint32_t one = format.is_float() ? std::bit_cast<std::uint32_t>(1.0F) : 1;
      out[c] = c == 3 ? one : 0;
      continue;
    }
    const std::uint8_t* const at = texel + c * format.channel_bytes();
    switch (format.channel) {
      case Channel::kU8:
        out[c] = *at;
        break;
      case Channel::kS8:
        out[c] = static_cast<std::uint32_t>(LoadAs<std::int8_t>(at));
        break;
      case Channel::kU16:
        out[c] = LoadAs<std::uint16_t>(at);
        break;
      case Channel::kS16:
        out[c] = static_cast<std::uint32_t>(LoadAs<std::int16_t>(at));
        break;
      case Channel::kF16:
        out[c] = std::bit_cast<std::uint32_t>(static_cast<float>(LoadAs<_Float16>(at)));
        break;
      case Channel::kU32:
      case Channel::kS32:
      case Channel::kF32:
        out[c] = LoadAs<std::uint32_t>(at);
        break;
    }
  }
}

}  // namespace cuspan::softgpu
