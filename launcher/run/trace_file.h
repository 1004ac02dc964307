// The timeline of a run as one file, in the trace-event format that Perfetto and
// Chrome open: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace.h"

namespace cuspan {

// What one process recorded, by the home node's clock.
struct TracedProcess {
  std::string host;
  std::string role;  // As people know it: "program peers", "agent", "GPU 0".
  std::uint32_t pid = 0;
  std::uint32_t session = 0;  // Of a client or a proxy; an agent's records name theirs.
  std::uint32_t device = 0;   // Of a proxy.
  bool agent = false;
  bool client = false;
  std::vector<TraceRecord> records;
  std::uint64_t dropped = 0;  // That found no room.
};

// The clock of another node against the home node's, as it was measured.
struct ClockReport {
  std::string host;
  std::int64_t offset_nanoseconds = 0;       // Theirs less ours.
  std::uint64_t round_trip_nanoseconds = 0;  // Of the fastest question: the offset is good to half.
};

// kInvalid if that file can not be written, or made. Changes nothing.
Status CheckTraceFile(const std::string& path);

// One event a record: on a track of its process and kind, so that those of one track do not
// overlap. Times are microseconds since the first of them. kUnavailable names the file.
Status WriteTraceFile(const std::string& path, const std::vector<TracedProcess>& processes,
                      const std::vector<ClockReport>& clocks);

}  // namespace cuspan
