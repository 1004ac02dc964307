// Texture objects for programs of all releases.
#pragma once

#include <cstddef>

#include "interpose/runtime/api.h"

namespace cuspan {

// cudaCreateTextureObject, of descriptions as programs of a major release of CUDA know them.
cudaError_t CreateTexture(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                          const cudaTextureDesc* sampling, const cudaResourceViewDesc* view,
                          int release);

// How much of it programs of a release have.
inline std::size_t BytesOf(const cudaResourceDesc& desc, int release) {
  // Before 13 the plane was the largest form, and nothing followed the forms.
  return release < 13 ? offsetof(cudaResourceDesc, res) + sizeof desc.res.pitch2D : sizeof desc;
}
inline std::size_t BytesOf(const cudaResourceViewDesc& desc, int release) {
  return release < 13 ? offsetof(cudaResourceViewDesc, reserved) : sizeof desc;
}
inline std::size_t BytesOf(const cudaTextureDesc& desc, int release) {
  return release < 12 ? offsetof(cudaTextureDesc, seamlessCubemap) : sizeof desc;
}

}  // namespace cuspan
