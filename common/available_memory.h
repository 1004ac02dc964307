// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>

namespace cuspan {

// Bytes that can be had without making others swap or having the kernel end processes: what the
// host has available (MemAvailable of proc_meminfo(5)), or what is left of the memory controllers
// (cgroups, version 1 or 2) that this process is under, if that is less. The largest number when
// neither is known. `root` is for tests: where /proc and /sys are.
std::uint64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace cuspan
