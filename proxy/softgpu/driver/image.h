// Which PTX of an image (what cuModuleLoadData is given) a device runs.
#pragma once

#include <cuda.h>

#include <string>

namespace cuspan::softgpu {

// Finds the PTX text in `image`: a fat binary, from which the newest that a
// device of `capability` (90 for 9.0) runs is taken, or a text that ends with a
// NUL. A fat binary of relocatable code that comes with its objects
// (fatbin::WithObjects) is linked, each object's newest. As with the driver, the caller vouches
// that `image` is readable to its own end. Logs why it fails and returns the driver's code.
CUresult SelectPtx(const void* image, int capability, std::string* ptx);

}  // namespace cuspan::softgpu
