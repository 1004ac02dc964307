// The allocator's data about GPUs: plain numbers, for decisions over thousands of them.
//
// An inventory (GpuPool) lists all GPUs usable for a request, host after host; a GPU's number is
// its index. PoolLeases marks the GPUs now taken. Neither depends on the source of its data.
// Several threads may read them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/scheduling/pairs.h"

namespace cuspan {

// Properties of a GPU used for choosing.
struct PoolGpu {
  std::uint64_t memory_bytes = 0;
  // Cores × clock × memory clock (GpuSpeed); used for comparison only.
  double speed = 0;
  std::uint32_t capability = 0;  // 10 × major + minor: 90 is 9.0.
  bool usable = true;            // False if its compute mode forbids every use.
};

// GPUs first … first + count - 1 of the pool.
struct PoolHost {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct GpuPool {
  std::vector<PoolGpu> gpus;
  std::vector<PoolHost> hosts;

  // Appends a host with these GPUs. Returns its number.
  std::uint32_t AddHost(const std::vector<PoolGpu>& added);
};

// Load of a GPU by the runs sharing it.
struct GpuLoad {
  std::uint32_t runs = 0;
  std::uint32_t promised = 0;            // Sum of the runs' quotas of time, in thousandths.
  std::uint64_t memory_bytes = 0;        // Used by the runs, or reserved for them.
  std::array<std::uint32_t, 3> kinds{};  // Number of runs, by scheduling::Bottleneck.

  void Add(std::uint32_t quota, std::uint64_t memory, scheduling::Bottleneck bottleneck);
};

// Leases on the GPUs of a pool.
struct PoolLeases {
  // No GPU held, no host closed.
  explicit PoolLeases(const GpuPool& pool)
      : held(pool.gpus.size(), 0), closed(pool.hosts.size(), 0) {}

  std::vector<std::uint8_t> held;    // 1 if another run holds the GPU.
  std::vector<std::uint8_t> closed;  // 1 if an earlier run waits on the host.
  // Loads by GPU, for sharing runs; meaningful for GPUs not held. Empty if no GPU is shared.
  std::vector<GpuLoad> loads;
};

// Number of single-precision lanes of a multiprocessor of that capability, from the "Compute
// Capabilities" chapters of the CUDA programming guide (table "Arithmetic Instructions": results of
// 32-bit floating-point add per clock cycle). 128 for capabilities not listed.
std::uint32_t CoresPerMultiprocessor(std::uint32_t capability);

// Clocks in kHz, as reported by the driver. An unknown clock (0) counts as 1: GPUs with unknown
// clocks are compared by the other values.
double GpuSpeed(std::uint32_t multiprocessors, std::uint32_t capability, std::uint32_t clock_khz,
                std::uint32_t memory_clock_khz);

}  // namespace cuspan
