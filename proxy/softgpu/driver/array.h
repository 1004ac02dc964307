// CUDA arrays and mipmapped arrays: images in device memory, accessible only by handle.
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

// Array with one level, or a mipmapped array with several. Its memory lives as long as the object.
// Threads: any.
class Array {
 public:
  // Checks the descriptor and allocates zeroed memory for `levels` levels.
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

// Object behind a CUarray: one level of an array.
struct ArrayEntry {
  std::shared_ptr<Array> array;
  unsigned level = 0;
  bool of_mipmap = false;  // Destroyed only with the mipmapped array.
  const Image& image() const { return array->levels()[level]; }
};

// Object behind a CUmipmappedArray, with the handles of the levels requested so far.
struct MipmapEntry {
  std::shared_ptr<Array> array;
  std::mutex mutex;
  std::vector<std::uint64_t> level_handles;  // 0: not requested yet.
};

}  // namespace cuspan::softgpu
