// Determines the bottleneck of a kernel on a device: its arithmetic, or the device's memory.
// Roofline model: compares the time of its computations at the device's rates with the time of its
// bytes at the memory's bandwidth.
//
// The class estimates a kernel's speed beside another one; no result of a program depends on it.
// Limits of the model:
// - Caches. Bytes visibly shared by several blocks, or read again by other threads of a block, are
//   not counted as memory traffic (KernelMix::reread_bytes). Everything else is, though a working
//   set of a few MiB may stay in the L2 cache. A window of neighbours read by each thread
//   (stencils, convolutions) may stay in the L1 cache. Such a kernel may be classified as
//   memory-bound and be limited by its loads.
// - Coalescing. Lanes with distant addresses cause more traffic than their bytes.
// - Iterations of loops, and directions of branches (kernel_mix.h).
// - Number of threads. A launch too small for the device, or mostly waiting for latencies, has
//   neither bottleneck.
// - Additional machine code, above all spilled registers.
//
// Measured on an H100 with ncu, for 58 kernels (tests/unit/proxy/kernel_class/kernels.cu, 19 others
// in CUDA, 6 of Triton). For 52, the class agreed with the greater of two percentages: of the SM's
// peak and of DRAM's peak (48 before costs were adjusted to measurements). One was unknown. The
// other five: a fill and a copy of single bytes (at most half of either peak), two windows of
// neighbours, and atomic operations on 65,536 bins (limited by the L2 cache).
#pragma once

#include <cstdint>

#include "common/scheduling/pairs.h"
#include "proxy/kernel_class/kernel_mix.h"

namespace cuspan::kernel_class {

// Device attributes from the driver; 0 if unknown.
struct DeviceRates {
  std::uint32_t multiprocessors = 0;   // MULTIPROCESSOR_COUNT
  std::uint32_t capability = 0;        // COMPUTE_CAPABILITY_MAJOR · 10 + …_MINOR
  std::uint32_t clock_khz = 0;         // CLOCK_RATE
  std::uint32_t memory_clock_khz = 0;  // MEMORY_CLOCK_RATE
  std::uint32_t memory_bits = 0;       // GLOBAL_MEMORY_BUS_WIDTH
};

// Rates of a multiprocessor per clock cycle.
struct UnitRates {
  double fp32, fp64, fp16, special;  // Results. Integers: only limited by the issue rate.
  double tensor;                     // .f16 floating-point operations: multiply-adds count twice.
};
UnitRates RatesOf(std::uint32_t capability);

// Time one thread's work occupies a multiprocessor, in its clock cycles; 0: unknown.
struct UnitTimes {
  double arithmetic = 0;      // The busiest unit, including the issue of instructions.
  double memory = 0;          // Its share of the memory's bandwidth.
  double memory_at_most = 0;  // The same if bulk copies of unknown size have the maximum size.
};
UnitTimes TimesOf(const KernelMix& mix, const DeviceRates& rates);

// kMemory or kCompute if that time is at least 1.5 times the other. kUnknown if not, or if the mix
// or the device's rates are unknown.
scheduling::Bottleneck ClassOf(const KernelMix& mix, const DeviceRates& rates);

}  // namespace cuspan::kernel_class
