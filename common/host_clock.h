// The clocks that all processes of a host share, also those in time namespaces: time_namespaces(7).
#pragma once

#include <cstdint>
#include <string_view>

namespace cuspan {

// Nanoseconds of the host's CLOCK_MONOTONIC, and of its CLOCK_BOOTTIME: since the host was started.
// Any thread. A process that enters a time namespace without an exec keeps the first one's offsets.
std::uint64_t HostMonotonicNow();
std::uint64_t HostUptime();

// The offset of a clock in a time namespace to the host's, in nanoseconds, as
// /proc/PID/timens_offsets says it ("monotonic SECONDS NANOSECONDS"). 0 if it does not.
std::int64_t NamespaceOffset(std::string_view offsets, std::string_view clock);

}  // namespace cuspan
