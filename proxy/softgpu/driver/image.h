// Which PTX of an image (what cuModuleLoadData is given) a device runs.
//
// All return the driver's code, and in *why what is wrong, as far as there is more to say.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string>

namespace cuspan::softgpu {

// Whether the image is a PTX text, which a program may have written itself.
bool IsPtxText(const void* image);

// Finds the PTX text in `image`: a fat binary, a linked image of the software GPU, or a text that
// ends with a NUL. As with the driver, the caller vouches that it is readable to its own end.
CUresult SelectPtx(const void* image, int capability, std::string* ptx, std::string* why);

// The newest PTX in a fat binary (a container) that a device of `capability` (90 for 9.0) runs.
CUresult PtxOfFatbin(std::span<const std::uint8_t> container, int capability, std::string* ptx,
                     std::string* why);
// That of a linked image of the software GPU.
CUresult PtxOfElf(std::span<const std::uint8_t> elf, std::string* ptx, std::string* why);

}  // namespace cuspan::softgpu
