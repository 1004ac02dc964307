// Functions that compiled code calls for what has no short form in LLVM IR.
// Unlike those of rt/abi.h they know nothing of threads and blocks.
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

// cuspan_math_…: directed roundings, PTX's approximations, formats of 8 bits;
// and the C library's functions that LLVM calls by itself. Pure.
std::span<const HelperSymbol> MathHelpers();
// cuspan_mbarrier_…: barriers in memory. They read and write the barrier, which
// only threads of one block share.
std::span<const HelperSymbol> MbarrierHelpers();

}  // namespace cuspan::softgpu
