// Selection of the PTX in an image (the argument of cuModuleLoadData) for a device.
//
// All functions return a CUresult, and explain errors in *why if possible.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string>

namespace cuspan::softgpu {

// True if the image is PTX text, possibly written by the program itself.
bool IsPtxText(const void* image);

// Finds the PTX text in `image`: a fat binary, a linked image of the software GPU, or a
// NUL-terminated text. The image must be readable to its own end, as for NVIDIA's driver.
CUresult SelectPtx(const void* image, int capability, std::string* ptx, std::string* why);

// Finds the newest PTX of a fat binary (a container) runnable on a device of `capability` (90 for
// 9.0).
CUresult PtxOfFatbin(std::span<const std::uint8_t> container, int capability, std::string* ptx,
                     std::string* why);
// Finds the PTX of a linked image of the software GPU.
CUresult PtxOfElf(std::span<const std::uint8_t> elf, std::string* ptx, std::string* why);

}  // namespace cuspan::softgpu
