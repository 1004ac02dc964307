// Functions called by compiled code for operations without a short form in LLVM IR. Unlike those of
// rt/abi.h, they are independent of threads and blocks.
#pragma once

#include <span>

namespace cuspan::softgpu {

struct HelperSymbol {
  const char* name;
  void* address;
};

template <typename Function>
void* AddressOf(Function* function) {
  return reinterpret_cast<void*>(function);
}

// cuspan_math_…: directed roundings, PTX's approximations, 8-bit formats; and C library functions
// called by LLVM itself. Pure.
std::span<const HelperSymbol> MathHelpers();
// cuspan_mbarrier_…: barriers in memory. They read and write a barrier shared only by threads of
// one block.
std::span<const HelperSymbol> MbarrierHelpers();

}  // namespace cuspan::softgpu
