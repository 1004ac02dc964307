// Texture and surface objects. Their parameters are stored as structs of the op table, with the
// fields of the driver's descriptors.
#pragma once

#include <optional>

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

struct TextureRecord {
  TextureResource resource;
  TextureSampling sampling;
  std::optional<TextureView> view;
};

// If the resource is an array, the array's format is used.
Error CreateTexture(TextureRecord record, std::uint64_t* object);
Error DestroyTexture(std::uint64_t object);
Error FindTexture(std::uint64_t object, TextureRecord* record);

// True for integers: read unchanged, or normalized to 0 (or -1) to 1. Others are always read
// unchanged.
bool IsInteger(std::uint32_t format);

// `array`: a plain array usable for surfaces.
Error CreateSurface(std::uint64_t array, std::uint64_t* object);
Error DestroySurface(std::uint64_t object);
Error ArrayOfSurface(std::uint64_t object, std::uint64_t* array);

}  // namespace cuspan
