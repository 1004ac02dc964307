// Execution of texture and surface instructions.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "proxy/softgpu/rt/image_operation.h"
#include "proxy/softgpu/rt/texture.h"

namespace cuspan::softgpu {

// Reason for a failed instruction: a driver error and a constant text.
struct ImageFault {
  CUresult error = CUDA_SUCCESS;
  const char* what = nullptr;
};

// Executes a packed ImageOperation for the lanes of `mask`; word `i` of a lane is words[i * lanes +
// lane]. Stops at the first faulting lane.
ImageFault ExecuteImage(std::uint64_t operation, std::uint32_t mask, std::uint32_t* words,
                        std::uint32_t lanes);

// The words of one lane.
class ImageWords {
 public:
  ImageWords(std::uint32_t* words, std::uint32_t lanes) : words_(words), lanes_(lanes) {}
  std::uint32_t& operator[](unsigned i) { return words_[i * lanes_]; }
  std::uint32_t operator[](unsigned i) const { return words_[i * lanes_]; }

 private:
  std::uint32_t* const words_;
  const std::uint32_t lanes_;
};

// The kinds of instruction. (sampler.cc, surface.cc)
void SampleTexture(const ImageObject& texture, const ImageOperation& operation, ImageWords words);
void GatherTexels(const ImageObject& texture, const ImageOperation& operation, ImageWords words);
void QueryImage(const ImageObject& image, const ImageOperation& operation, ImageWords words);
ImageFault AccessSurface(const ImageObject& surface, const ImageOperation& operation,
                         ImageWords words);

}  // namespace cuspan::softgpu
