#include "proxy/kernel_class/kernel_class.h"

#include <algorithm>

namespace cuspan::kernel_class {
namespace {

// Minimum ratio of the two times.
constexpr double kMargin = 1.5;
// Achievable part of the nominal memory bandwidth. (A copy on an H100 and an H200: 0.90)
constexpr double kMemoryPart = 0.9;
// Instructions issued by a multiprocessor per cycle, for all lanes: four schedulers, one warp each.
// (CUDA C++ Programming Guide, "Compute Capabilities")
constexpr double kIssued = 128;
// Lanes of 4 bytes served by the load and store units per cycle: 32 banks of shared memory, and as
// many bytes from the L1 cache. (ibid., "Shared Memory")
constexpr double kAccessed = 32;
// Assumed maximum size of a bulk copy in bytes; the size of shared memory limits it.
constexpr double kLargestCopy = 64 << 10;
constexpr double kThreadsOfCopy = 128;

}  // namespace

// Results per cycle: CUDA C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions"
// (as CoresPerMultiprocessor in launcher/allocator/inventory.h). Tensor cores: NVIDIA's whitepapers
// on the architectures V100, A100, H100 and GA102, "dense FP16 FMA operations per clock and SM",
// 512, 1024, 2048 and 512. For Blackwell computed from the data sheets' FLOP/s, SMs and clocks.
UnitRates RatesOf(std::uint32_t capability) {
  switch (capability) {
    case 60:
      return {64, 32, 128, 16, 0};
    case 61:
    case 62:
      return {128, 4, 2, 32, 0};
    case 70:
    case 72:
      return {64, 32, 128, 16, 1024};
    case 75:
      return {64, 2, 128, 16, 1024};
    case 80:
      return {64, 32, 256, 16, 2048};
    case 86:
    case 87:
    case 88:
    case 89:
      return {128, 2, 128, 16, 1024};
    case 90:
      return {128, 64, 256, 16, 4096};
    case 100:
      return {128, 64, 128, 16, 8192};
    case 103:
      return {128, 2, 128, 16, 8192};
    default:
      // Others, including 12.0: as consumer GPUs.
      return {128, 2, 128, 16, capability >= 70 ? 1024.0 : 0};
  }
}

UnitTimes TimesOf(const KernelMix& mix, const DeviceRates& rates) {
  UnitTimes times;
  const UnitRates units = RatesOf(rates.capability);
  // Without tensor cores these instructions do not exist.
  const double tensor = units.tensor > 0 ? mix.tensor / units.tensor : 0;
  const double issued = mix.fp32 + mix.fp64 + mix.fp16 / 2 + mix.integer + mix.special + mix.other;
  times.arithmetic =
      std::max({mix.fp32 / units.fp32, mix.fp64 / units.fp64, mix.fp16 / units.fp16,
                mix.special / units.special, tensor, mix.accesses / kAccessed, issued / kIssued});
  // Two transfers per memory clock cycle and bit of the bus.
  const double bandwidth = 2e3 * rates.memory_clock_khz * rates.memory_bits / 8 * kMemoryPart;
  const double cycles = 1e3 * rates.clock_khz * rates.multiprocessors;
  if (bandwidth <= 0 || cycles <= 0) return {};
  times.memory = mix.bytes * cycles / bandwidth;
  times.memory_at_most =
      times.memory + mix.unknown_copies * kLargestCopy / kThreadsOfCopy * cycles / bandwidth;
  return times;
}

scheduling::Bottleneck ClassOf(const KernelMix& mix, const DeviceRates& rates) {
  const UnitTimes times = TimesOf(mix, rates);
  const bool does_something = mix.bytes + mix.reread_bytes + mix.fp32 + mix.fp64 + mix.fp16 +
                                  mix.integer + mix.special + mix.tensor >
                              0;
  if (!does_something || mix.unknown_work > 0) return scheduling::Bottleneck::kUnknown;
  if (times.memory > kMargin * times.arithmetic) return scheduling::Bottleneck::kMemory;
  if (times.arithmetic > kMargin * times.memory_at_most) return scheduling::Bottleneck::kCompute;
  return scheduling::Bottleneck::kUnknown;
}

}  // namespace cuspan::kernel_class
