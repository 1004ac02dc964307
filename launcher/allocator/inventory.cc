#include "launcher/allocator/inventory.h"

#include <algorithm>

namespace cuspan {

std::uint32_t GpuPool::AddHost(const std::vector<PoolGpu>& added) {
  hosts.push_back(
      {static_cast<std::uint32_t>(gpus.size()), static_cast<std::uint32_t>(added.size())});
  gpus.insert(gpus.end(), added.begin(), added.end());
  return static_cast<std::uint32_t>(hosts.size() - 1);
}

void GpuLoad::Add(std::uint32_t quota, std::uint64_t memory, scheduling::Bottleneck bottleneck) {
  ++runs;
  promised += quota;
  memory_bytes += memory;
  ++kinds[static_cast<std::size_t>(bottleneck)];
}

std::uint32_t CoresPerMultiprocessor(std::uint32_t capability) {
  switch (capability) {
    case 60:
    case 70:
    case 72:
    case 75:
    case 80:
      return 64;
    default:
      return 128;
  }
}

double GpuSpeed(std::uint32_t multiprocessors, std::uint32_t capability, std::uint32_t clock_khz,
                std::uint32_t memory_clock_khz) {
  return static_cast<double>(multiprocessors) * CoresPerMultiprocessor(capability) *
         std::max(clock_khz, 1U) * std::max(memory_clock_khz, 1U);
}

}  // namespace cuspan
