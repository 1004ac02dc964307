// Images accessed by kernels: textures for sampling, and surfaces for reading and writing by texel.
// (CUDA C++ Programming Guide, "Texture and Surface Memory"; PTX ISA, "Texture Instructions",
// "Surface Instructions")
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cuspan::softgpu {

// Storage format of a texel's channel.
enum class Channel : std::uint8_t { kU8, kU16, kU32, kS8, kS16, kS32, kF16, kF32 };

struct TexelFormat {
  Channel channel = Channel::kU8;
  std::uint8_t channels = 1;  // 1, 2 or 4
  bool normalised = false;    // Integers always representing [0, 1] or [-1, 1].

  std::uint32_t channel_bytes() const;
  std::uint32_t bytes() const { return channel_bytes() * channels; }
  bool is_float() const { return channel == Channel::kF16 || channel == Channel::kF32; }
  bool is_signed() const { return channel >= Channel::kS8 && channel <= Channel::kS32; }
};

// Returns false for formats not implemented (compressed and planar ones).
bool FormatOf(CUarray_format format, unsigned channels, TexelFormat* out);

// Texels in memory: slices of rows. Layers and the faces of cubes are slices.
struct Image {
  std::uint8_t* base = nullptr;
  std::uint32_t width = 1, height = 1, depth = 1;
  std::size_t row_bytes = 0, slice_bytes = 0;

  std::uint8_t* At(std::uint32_t x, std::uint32_t y, std::uint32_t z,
                   std::uint32_t texel_bytes) const {
    return base + z * slice_bytes + y * row_bytes + std::size_t{x} * texel_bytes;
  }
};

enum class ImageShape : std::uint8_t {
  kLinear,  // Device memory, addressed by element.
  k1D,
  k2D,
  k3D,
  k1DLayered,
  k2DLayered,
  kCube,
  kCubeLayered
};

enum class Addressing : std::uint8_t { kWrap, kClamp, kMirror, kBorder };

// A texture or surface. Constant once it has a handle.
struct ImageObject {
  std::uint64_t handle = 0;
  bool is_surface = false;
  ImageShape shape = ImageShape::k2D;
  TexelFormat format;
  CUarray_format driver_format = CU_AD_FORMAT_UNSIGNED_INT8;
  std::vector<Image> levels;  // Mipmap levels, largest first; a surface has one.
  // --- Textures only
  std::array<Addressing, 3> addressing = {};
  bool linear_filter = false;
  bool linear_mipmap = false;
  bool normalised_coordinates = false;
  bool read_as_float = false;  // Integers become [0, 1] or [-1, 1].
  bool srgb = false;
  float level_bias = 0, lowest_level = 0, highest_level = 0;
  std::array<float, 4> border = {};
  // Descriptors it was created from, for queries, and an owner of its memory.
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  bool has_view = false;
  std::shared_ptr<const void> keep;
};

// Handles of image objects. Kernels find objects without a lock. Removed objects live until the
// caller of Remove releases them. Threads: any.
class ImageTable {
 public:
  // Returns the process's table.
  static ImageTable& Get();

  // Returns 0 if there are too many.
  std::uint64_t Add(std::shared_ptr<ImageObject> object);
  // Returns null for an unknown handle.
  const ImageObject* Find(std::uint64_t handle) const;
  std::shared_ptr<const ImageObject> FindShared(std::uint64_t handle) const;
  std::shared_ptr<const ImageObject> Remove(std::uint64_t handle);
  template <typename Predicate>
  std::vector<std::shared_ptr<const ImageObject>> RemoveIf(Predicate predicate) {
    std::vector<std::shared_ptr<const ImageObject>> removed;
    std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < used_; ++i) {
      auto& owner = owners_[i];
      if (owner != nullptr && predicate(*owner)) removed.push_back(RemoveLocked(i));
    }
    return removed;
  }

 private:
  static constexpr std::uint32_t kMost = 1U << 18;
  static constexpr std::uint32_t kChunk = 1U << 9;
  using Chunk = std::array<std::atomic<const ImageObject*>, kChunk>;

  std::shared_ptr<const ImageObject> RemoveLocked(std::uint32_t index);
  std::atomic<const ImageObject*>& Slot(std::uint32_t index) const;

  mutable std::mutex mutex_;
  std::array<std::atomic<Chunk*>, kMost / kChunk> chunks_ = {};
  std::vector<std::shared_ptr<const ImageObject>> owners_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
  std::uint64_t generation_ = 0;
};

// Loads the channels of a texel, each into 32 bits: integers sign-extended, f16 as f32 bits.
// Missing channels are 0, alpha 1.
void LoadTexel(const TexelFormat& format, const std::uint8_t* texel, std::uint32_t out[4]);

}  // namespace cuspan::softgpu
