// Arrays, textures and surfaces of the client.
#pragma once

#include <memory>

#include "proxy/gpu/driver.h"
#include "proxy/gpu/memory_account.h"

namespace cuspan::proxy {

// An array, a mipmapped array, or one of its levels.
struct Array {
  CUarray driver = nullptr;  // An array or a level.
  CUmipmappedArray mipmap = nullptr;
  std::shared_ptr<Array> whole;  // Mipmapped array of a level.
  MemoryAccount::Taken taken;    // Covers all levels.
};

// Identified by the driver's own handle, as used in kernels.
struct Texture {
  CUtexObject driver;
};
struct Surface {
  CUsurfObject driver;
};

}  // namespace cuspan::proxy
