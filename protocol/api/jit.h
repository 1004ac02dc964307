// Options of the driver's compiler and linker (CUjit_option) in ops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan {

// True if the value of an option is a number, so a proxy can pass it to its driver. The logs have
// fields of their own (JitRequest). Pointers to memory of the program are meaningless at the proxy.
// The numbers are those of CUDA 13.0.
constexpr bool IsJitNumber(std::uint32_t option) {
  const auto between = [option](std::uint32_t first, std::uint32_t last) {
    return first <= option && option <= last;
  };
  return between(0, 2)        // Registers, threads per block, time.
         || between(7, 16)    // From CU_JIT_OPTIMIZATION_LEVEL to CU_JIT_FAST_COMPILE.
         || between(20, 24)   // From CU_JIT_LTO to CU_JIT_FMA.
         || between(29, 34);  // From CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES on.
}

// Maximum number of options per call, and of bytes per log: both logs fit in a frame.
inline constexpr std::size_t kMaxJitOptions = 64;
inline constexpr std::uint32_t kMaxJitLog = 16 << 10;

}  // namespace cuspan
