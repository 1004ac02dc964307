// Texture and surface objects. What they were made of is kept in the forms of the op table, whose
// fields are those of the driver's descriptors.
#pragma once

#include <optional>

#include "interpose/calls/ways_in.h"

namespace cuspan {

struct TextureRecord {
  TextureResource resource;
  TextureSampling sampling;
  std::optional<TextureView> view;
};

// Where the resource is an array, its format is looked up.
Error CreateTexture(TextureRecord record, std::uint64_t* object);
Error DestroyTexture(std::uint64_t object);
Error FindTexture(std::uint64_t object, TextureRecord* record);

// Integers are read as such, or as numbers from 0 (or -1) to 1; others are read as they are.
bool IsInteger(std::uint32_t format);

// `array` is a plain array for surfaces.
Error CreateSurface(std::uint64_t array, std::uint64_t* object);
Error DestroySurface(std::uint64_t object);
Error ArrayOfSurface(std::uint64_t object, std::uint64_t* array);

}  // namespace cuspan
