// What one software GPU can do: the figures behind device attributes, launch
// checks and occupancy. Those of a Hopper device where a program may depend on
// them; few multiprocessors, so that a cooperative grid stays small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cuspan::softgpu::limits {

inline constexpr std::uint32_t kMaxThreads = 1024;  // Of a block.
inline constexpr std::uint32_t kMaxBlock[3] = {1024, 1024, 64};
inline constexpr std::uint32_t kMaxGrid[3] = {2147483647, 65535, 65535};
inline constexpr std::uint32_t kThreadsPerProcessor = 2048;
inline constexpr std::uint32_t kBlocksPerProcessor = 32;
inline constexpr std::size_t kSharedPerBlock = 48 * 1024;
inline constexpr std::size_t kSharedPerBlockOptIn = 227 * 1024;
inline constexpr std::size_t kSharedPerProcessor = 228 * 1024;
inline constexpr std::size_t kSharedReserved = 1024;  // Of each block, by the system.
inline constexpr int kRegisters = 65536;              // Of a block and of a processor.
inline constexpr int kRegistersPerThread = 32;        // What every kernel claims to use.
inline constexpr std::size_t kConstantBytes = 64 * 1024;

inline constexpr std::size_t kMaxLayers = 2048;  // Of an array.
inline constexpr int kTextureAlignment = 512;
inline constexpr int kTexturePitchAlignment = 32;

// Of streams; lower numbers go first, as with the driver.
inline constexpr int kMinPriority = 0;
inline constexpr int kGreatestPriority = -5;

// Multiprocessors of a device whose work is done by `threads` workers.
constexpr int Processors(unsigned threads) { return static_cast<int>(std::clamp(threads, 4u, 8u)); }

}  // namespace cuspan::softgpu::limits
