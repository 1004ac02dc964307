// Linking device code (cuLink*): the inputs go to the proxy of the current context one by one, its
// driver links them, and the image comes back.
//
// CUDA_ERROR_INVALID_HANDLE for what is no linker, or none any more; the end of its context ends
// it. What the options of its creation return is written by each call, as the driver does.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "interpose/calls/load_options.h"

namespace cuspan {

Error CreateLinker(const Options<CUjit_option>& options, CUlinkState* linker);

// An input of a linker: `kind` is the driver's to know.
struct LinkerInputData {
  CUjitInputType kind;
  const void* data;
  std::size_t bytes;
  const char* name;  // For the logs; may be null.
};
Error AddToLinker(CUlinkState linker, const LinkerInputData& input,
                  const Options<CUjit_option>& options);
Error AddFileToLinker(CUlinkState linker, CUjitInputType kind, const char* path,
                      const Options<CUjit_option>& options);
// *image is the linker's.
Error CompleteLinker(CUlinkState linker, void** image, std::size_t* bytes);
Error DestroyLinker(CUlinkState linker);

}  // namespace cuspan
