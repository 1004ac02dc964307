// Memory still available to this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace cuspan {

// Bytes available without swapping out other processes or invoking the OOM killer. This is the
// minimum of the host's MemAvailable (proc_meminfo(5)) and the rest left by this process's memory
// cgroups, version 1 or 2. If neither is known, returns the largest number. `root` is for tests:
// the folder with /proc and /sys.
std::uint64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace cuspan
