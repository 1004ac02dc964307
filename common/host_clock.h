// Clocks shared by all processes of a host, also inside time namespaces: time_namespaces(7).
#pragma once

#include <cstdint>
#include <string_view>

namespace cuspan {

// Nanoseconds of the host's CLOCK_MONOTONIC, and of its CLOCK_BOOTTIME (since the host was
// started). Threads: any. A process that enters a time namespace without an exec keeps the offsets
// of the first one.
std::uint64_t HostMonotonicNow();
std::uint64_t HostUptime();

// Offset in ns of a clock in a time namespace from the host's, read from the text of
// /proc/PID/timens_offsets ("monotonic SECONDS NANOSECONDS"). 0 if it is not listed.
std::int64_t NamespaceOffset(std::string_view offsets, std::string_view clock);

}  // namespace cuspan
