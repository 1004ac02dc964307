// Conversions of texture descriptions between CUDA and the protocol. Fields have the same names in
// cuda.h and driver_types.h, except the flags: the caller converts them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "ops.gen.h"

namespace cuspan {

// `Description`: CUDA_TEXTURE_DESC or cudaTextureDesc.
template <typename Description>
TextureSampling SamplingFrom(const Description& description) {
  TextureSampling out;
  for (std::size_t i = 0; i < out.address_modes.size(); ++i)
    out.address_modes[i] = static_cast<std::uint32_t>(description.addressMode[i]);
  out.filter = static_cast<std::uint32_t>(description.filterMode);
  out.max_anisotropy = description.maxAnisotropy;
  out.mipmap_filter = static_cast<std::uint32_t>(description.mipmapFilterMode);
  out.mipmap_bias = description.mipmapLevelBias;
  out.mipmap_least = description.minMipmapLevelClamp;
  out.mipmap_most = description.maxMipmapLevelClamp;
  std::copy(std::begin(description.borderColor), std::end(description.borderColor),
            out.border.begin());
  return out;
}

template <typename Description>
Description SamplingAs(const TextureSampling& sampling) {
  Description out{};
  for (std::size_t i = 0; i < sampling.address_modes.size(); ++i)
    out.addressMode[i] = static_cast<std::remove_reference_t<decltype(out.addressMode[i])>>(
        sampling.address_modes[i]);
  out.filterMode = static_cast<decltype(out.filterMode)>(sampling.filter);
  out.maxAnisotropy = sampling.max_anisotropy;
  out.mipmapFilterMode = static_cast<decltype(out.mipmapFilterMode)>(sampling.mipmap_filter);
  out.mipmapLevelBias = sampling.mipmap_bias;
  out.minMipmapLevelClamp = sampling.mipmap_least;
  out.maxMipmapLevelClamp = sampling.mipmap_most;
  std::copy(sampling.border.begin(), sampling.border.end(), out.borderColor);
  return out;
}

// `Description`: CUDA_RESOURCE_VIEW_DESC or cudaResourceViewDesc.
template <typename Description>
TextureView ViewFrom(const Description& description) {
  TextureView out;
  out.format = static_cast<std::uint32_t>(description.format);
  out.width = description.width;
  out.height = description.height;
  out.depth = description.depth;
  out.first_level = description.firstMipmapLevel;
  out.last_level = description.lastMipmapLevel;
  out.first_layer = description.firstLayer;
  out.last_layer = description.lastLayer;
  return out;
}

template <typename Description>
Description ViewAs(const TextureView& view) {
  Description out{};
  out.format = static_cast<decltype(out.format)>(view.format);
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.firstMipmapLevel = view.first_level;
  out.lastMipmapLevel = view.last_level;
  out.firstLayer = view.first_layer;
  out.lastLayer = view.last_layer;
  return out;
}

}  // namespace cuspan
