// Linking of device code (cuLink*). The inputs go to the proxy of the current context one by one,
// its driver links them, and the image comes back.
//
// CUDA_ERROR_INVALID_HANDLE if the linker is unknown or destroyed. The end of its context destroys
// it. Each call writes the outputs of the creation's options, same as the driver.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "interpose/calls/load_options.h"

namespace cuspan {

Error CreateLinker(const Options<CUjit_option>& options, CUlinkState* linker);

// An input of a linker. The driver checks `kind`.
struct LinkerInputData {
  CUjitInputType kind;
  const void* data;
  std::size_t bytes;
  const char* name;  // Only for logs; may be null.
};
Error AddToLinker(CUlinkState linker, const LinkerInputData& input,
                  const Options<CUjit_option>& options);
Error AddFileToLinker(CUlinkState linker, CUjitInputType kind, const char* path,
                      const Options<CUjit_option>& options);
// The linker owns *image.
Error CompleteLinker(CUlinkState linker, void** image, std::size_t* bytes);
Error DestroyLinker(CUlinkState linker);

}  // namespace cuspan
