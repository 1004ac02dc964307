// CUDA arrays and mipmapped arrays: images in the device's memory that are
// reached by handle only.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "proxy/softgpu/driver/module.h"
#include "proxy/softgpu/rt/texture.h"

namespace cuspan::softgpu {

class Context;
class Driver;

// An array with one level or, of a mipmapped one, several. Its memory lasts as
// long as the object. Any thread calls.
class Array {
 public:
  // Checks the descriptor and gets zeroed memory for `levels` levels.
  static CUresult Create(Driver& driver, const std::shared_ptr<Context>& context,
                         const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned levels,
                         std::shared_ptr<Array>* array);

  Array(std::shared_ptr<Context> context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
        AddressSpace& addresses, std::shared_ptr<PhysicalMemory> memory)
      : context_(std::move(context)),
        descriptor_(descriptor),
        memory_(addresses, std::move(memory)) {}

  const std::shared_ptr<Context>& context() const { return context_; }
  const CUDA_ARRAY3D_DESCRIPTOR& descriptor() const { return descriptor_; }
  const TexelFormat& format() const { return format_; }
  const std::vector<Image>& levels() const { return levels_; }
  ImageShape shape() const;

 private:
  const std::shared_ptr<Context> context_;
  const CUDA_ARRAY3D_DESCRIPTOR descriptor_;
  VariableMemory memory_;
  TexelFormat format_;
  std::vector<Image> levels_;
};

// What a CUarray names: one level of an array.
struct ArrayEntry {
  std::shared_ptr<Array> array;
  unsigned level = 0;
  bool of_mipmap = false;  // Destroyed with the mipmapped array only.
  const Image& image() const { return array->levels()[level]; }
};

// What a CUmipmappedArray names, with the handles of the levels that were asked for.
struct MipmapEntry {
  std::shared_ptr<Array> array;
  std::mutex mutex;
  std::vector<std::uint64_t> level_handles;  // 0: not yet asked for.
};

}  // namespace cuspan::softgpu
