// For functions whose name means different things in different releases of CUDA.
#pragma once

namespace cuspan {

// Whether the code at `address` belongs to a program or library that asks for a shared libcudart
// before CUDA 13 (libcudart.so.11.0 or .12). What links it statically is taken for CUDA 13.
bool CallerIsBefore13(const void* address);

}  // namespace cuspan
