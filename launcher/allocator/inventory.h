// What the allocator knows of GPUs: plain numbers, made for decisions over thousands of them.
//
// An inventory is all GPUs that a request could have, host after host; a GPU's number is its place
// in it. Leases say which of them are to be had at the moment. Neither knows where it came from.
// Safe to be read by several threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/scheduling/pairs.h"

namespace cuspan {

// One GPU, as far as a choice depends on it.
struct PoolGpu {
  std::uint64_t memory_bytes = 0;
  // Cores × clock × memory clock (GpuSpeed); only compared.
  double speed = 0;
  std::uint32_t capability = 0;  // 10 × major + minor: 90 is 9.0.
  bool usable = true;            // False where its compute mode forbids every use.
};

// Of one host: GPUs first … first + count - 1.
struct PoolHost {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct GpuPool {
  std::vector<PoolGpu> gpus;
  std::vector<PoolHost> hosts;

  // Appends a host with these GPUs; its number.
  std::uint32_t AddHost(const std::vector<PoolGpu>& added);
};

// What the runs that share a GPU have of it.
struct GpuLoad {
  std::uint32_t runs = 0;
  std::uint32_t promised = 0;            // Of its time, in thousandths: the sum of their quotas.
  std::uint64_t memory_bytes = 0;        // That they have, or that are kept for them.
  std::array<std::uint32_t, 3> kinds{};  // How many of them each scheduling::Limits limits.

  void Add(std::uint32_t quota, std::uint64_t memory, scheduling::Limits limits);
};

// What is taken of a pool.
struct PoolLeases {
  // None taken, no host closed.
  explicit PoolLeases(const GpuPool& pool)
      : held(pool.gpus.size(), 0), closed(pool.hosts.size(), 0) {}

  std::vector<std::uint8_t> held;    // By GPU: 1 where another run has it.
  std::vector<std::uint8_t> closed;  // By host: 1 where a run that came earlier waits.
  // By GPU, for a run that shares: of those that are not held. Empty where nobody shares one.
  std::vector<GpuLoad> loads;
};

// How many single-precision lanes a multiprocessor of that capability has, by the "Compute
// Capabilities" chapters of the CUDA programming guide (table "Arithmetic Instructions": results
// of 32-bit floating-point add per clock cycle). 128 for those that it does not list.
std::uint32_t CoresPerMultiprocessor(std::uint32_t capability);

// Clocks in kHz, as the driver tells them; one that is unknown (0) counts as 1, so that GPUs whose
// clocks are not told are compared by the rest.
double GpuSpeed(std::uint32_t multiprocessors, std::uint32_t capability, std::uint32_t clock_khz,
                std::uint32_t memory_clock_khz);

}  // namespace cuspan
