// Arrays, textures and surfaces of the client.
#pragma once

#include <memory>

#include "proxy/gpu/driver.h"
#include "proxy/gpu/memory_account.h"

namespace cuspan::proxy {

// An array, a mipmapped array, or one level of such.
struct Array {
  CUarray driver = nullptr;  // An array or a level.
  CUmipmappedArray mipmap = nullptr;
  std::shared_ptr<Array> whole;  // Of a level: what it belongs to.
  MemoryAccount::Taken taken;    // Of all of it.
};

// Known by the driver's own handles, which kernels use.
struct Texture {
  CUtexObject driver;
};
struct Surface {
  CUsurfObject driver;
};

}  // namespace cuspan::proxy
