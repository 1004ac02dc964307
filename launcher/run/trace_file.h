// Timeline of a run as one file in the trace-event format of Perfetto and Chrome:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace.h"

namespace cuspan {

// Records of one process, on the clock of the program's node.
struct TracedProcess {
  std::string host;
  std::string role;  // Role for display: "program peers", "agent", "GPU 0".
  std::uint32_t pid = 0;
  std::uint32_t session = 0;  // Clients and proxies only; an agent's records have their own.
  std::uint32_t device = 0;   // Proxies only.
  bool agent = false;
  bool client = false;
  std::vector<TraceRecord> records;
  std::uint64_t dropped = 0;  // Records lost for lack of space.
};

// Measured clock of another node, relative to the program's node.
struct ClockReport {
  std::string host;
  std::int64_t offset_nanoseconds = 0;       // Other clock minus the program node's.
  std::uint64_t round_trip_nanoseconds = 0;  // Fastest exchange; half of it is the offset's error.
};

// kInvalid if the file cannot be written or created. Changes nothing.
Status CheckTraceFile(const std::string& path);

// Writes one event per record. Each process and kind has as many tracks as needed to avoid overlap.
// Times are microseconds since the first event. kUnavailable names the file.
Status WriteTraceFile(const std::string& path, const std::vector<TracedProcess>& processes,
                      const std::vector<ClockReport>& clocks);

}  // namespace cuspan
