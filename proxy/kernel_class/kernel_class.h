// What limits a kernel on a device: its arithmetic, or the device's memory. By the roofline model:
// the time that what it computes takes at the device's rates is compared with the time that its
// bytes take at the memory's bandwidth.
//
// The class is an estimate of how a kernel goes beside another; no result of a program depends on
// it. What it cannot know:
// - What caches hold. Bytes that blocks visibly have in common are not taken for traffic of the
//   memory (KernelMix::reread_bytes), and neither is what is read again by other threads of a block
//   in that way; all else is, though a working set of a few MiB may stay in the L2 cache, and a
//   window of neighbours that each thread reads (stencils, convolutions) in the L1 cache. Such a
//   kernel may be called limited by memory and be limited by its loads.
// - What is not coalesced. Lanes that read far from each other make more traffic than their bytes.
// - How often loops run and which way branches go (kernel_mix.h).
// - How many threads there are. A launch that does not fill the device, or waits for latencies
//   most of the time, is limited by neither.
// - What machine code does besides, above all spilling registers.
//
// Measured on an H100 with ncu: of 58 kernels (tests/unit/proxy/kernel_class/kernels.cu, 19 others
// in CUDA, 6 of Triton), 52 had the class of the greater of the two percentages, of the SM's and of
// DRAM's peak (48 before costs were adjusted by what was measured); one was unknown. The other
// five: a fill and a copy of single bytes (at most half of either peak), two windows of neighbours,
// and atomic operations on 65,536 bins (limited by the L2 cache).
#pragma once

#include <cstdint>

#include "common/scheduling/pairs.h"
#include "proxy/kernel_class/kernel_mix.h"

namespace cuspan::kernel_class {

// As the driver tells them: attributes of a device. What it does not tell is 0.
struct DeviceRates {
  std::uint32_t multiprocessors = 0;   // MULTIPROCESSOR_COUNT
  std::uint32_t capability = 0;        // COMPUTE_CAPABILITY_MAJOR · 10 + …_MINOR
  std::uint32_t clock_khz = 0;         // CLOCK_RATE
  std::uint32_t memory_clock_khz = 0;  // MEMORY_CLOCK_RATE
  std::uint32_t memory_bits = 0;       // GLOBAL_MEMORY_BUS_WIDTH
};

// What a multiprocessor does in a clock cycle.
struct UnitRates {
  double fp32, fp64, fp16, special;  // Results. Integers: as many as can be issued.
  double tensor;                     // Floating-point operations on .f16, twice the multiply-adds.
};
UnitRates RatesOf(std::uint32_t capability);

// How long the work of one thread keeps a multiprocessor busy, in its clock cycles; 0: unknown.
struct UnitTimes {
  double arithmetic = 0;      // The busiest of its units, that which issues instructions included.
  double memory = 0;          // Its part of the memory's bandwidth.
  double memory_at_most = 0;  // The same, if bulk copies of unknown size are as large as can be.
};
UnitTimes TimesOf(const KernelMix& mix, const DeviceRates& rates);

// kMemory or kCompute if that time is at least 1.5 times the other, kUnknown if not, or if the mix
// or the device's rates are not known.
scheduling::Limits ClassOf(const KernelMix& mix, const DeviceRates& rates);

}  // namespace cuspan::kernel_class
