// Functions that compiled code calls for what has no short form in LLVM IR:
// directed roundings and PTX's approximations. Pure; any thread may call them.
#pragma once

#include <span>

namespace cuspan::softgpu {

struct MathSymbol {
  const char* name;  // As emitted: cuspan_math_<operation>_<rounding>_<type>.
  void* address;
};
std::span<const MathSymbol> MathSymbols();

}  // namespace cuspan::softgpu
