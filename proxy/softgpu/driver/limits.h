// Limits of a software GPU, used by device attributes, launch checks and occupancy. Values visible
// to programs are those of a Hopper device. Few multiprocessors keep cooperative grids small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cuspan::softgpu::limits {

inline constexpr std::uint32_t kMaxThreads = 1024;  // Per block.
inline constexpr std::uint32_t kMaxBlock[3] = {1024, 1024, 64};
inline constexpr std::uint32_t kMaxGrid[3] = {2147483647, 65535, 65535};
inline constexpr std::uint32_t kThreadsPerProcessor = 2048;
inline constexpr std::uint32_t kBlocksPerProcessor = 32;
inline constexpr std::size_t kSharedPerBlock = 48 * 1024;
inline constexpr std::size_t kSharedPerBlockOptIn = 227 * 1024;
inline constexpr std::size_t kSharedPerProcessor = 228 * 1024;
inline constexpr std::size_t kSharedReserved = 1024;  // Per block, by the system.
inline constexpr int kRegisters = 65536;              // Per block and processor.
inline constexpr int kRegistersPerThread = 32;        // Reported for every kernel.
inline constexpr std::size_t kConstantBytes = 64 * 1024;

inline constexpr std::size_t kMaxLayers = 2048;  // Per array.
inline constexpr int kTextureAlignment = 512;
inline constexpr int kTexturePitchAlignment = 32;

// Stream priorities; lower numbers go first, as in NVIDIA's driver.
inline constexpr int kMinPriority = 0;
inline constexpr int kGreatestPriority = -5;

// Multiprocessors of a device with `threads` worker threads.
constexpr int Processors(unsigned threads) { return static_cast<int>(std::clamp(threads, 4u, 8u)); }

}  // namespace cuspan::softgpu::limits
