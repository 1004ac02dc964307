// Options of the driver's compiler and linker (CUjit_option) as ops carry them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan {

// Whether the value of an option is a number, so that a proxy can give it to its driver: the logs
// have fields of their own (JitRequest), and what names memory of the program has no meaning there.
// The numbers are those of CUDA 13.0.
constexpr bool IsJitNumber(std::uint32_t option) {
  const auto between = [option](std::uint32_t first, std::uint32_t last) {
    return first <= option && option <= last;
  };
  return between(0, 2)        // Registers, threads of a block, time.
         || between(7, 16)    // From CU_JIT_OPTIMIZATION_LEVEL to CU_JIT_FAST_COMPILE.
         || between(20, 24)   // From CU_JIT_LTO to CU_JIT_FMA.
         || between(29, 34);  // From CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES on.
}

// The most options of one call, and bytes of one log: both logs fit a frame.
inline constexpr std::size_t kMaxJitOptions = 64;
inline constexpr std::uint32_t kMaxJitLog = 16 << 10;

}  // namespace cuspan
