// Runs the measuring program in every requested placement with every requested setting. Raw MPI,
// raw UCX and the local GPU are measured in between. Collects all results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan::bench::bandwidth {

struct SweepOptions {
  std::string device = "auto";
  std::string hosts = "localhost";
  std::string transport = "auto";
  std::vector<RelayKind> relays;  // Agents only.
  std::vector<std::string> placements = {"same-node", "agents"};
  std::vector<std::string> directions = {"to-device", "from-device", "both"};
  std::vector<std::string> memories = {"pinned", "pageable"};
  std::vector<std::uint64_t> transfers;
  std::vector<std::uint64_t> buffers;
  std::uint64_t buffer_count = 16;
  bool buffer_count_chosen = false;  // Otherwise more for several lanes, as in cuspan run.
  std::uint64_t sends = 8;
  bool sends_chosen = false;     // Otherwise fewer for several lanes.
  std::vector<int> lanes = {1};  // Agents only.
  std::vector<int> proxies = {1};
  std::vector<bool> pipelined = {true};
  int rounds = 3;
  double seconds = 0.5;  // Limit of one measurement per round; at least two repetitions.
};

// One row of the results.
struct Row {
  std::string direction;
  std::string memory;
  std::string placement;
  std::string relay;  // Agents only: mpi or ucx.
  std::uint64_t transfer_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  int proxies = 1;
  int lanes = 1;
  std::uint64_t sends = 0;  // Sends in flight per lane.
  bool pipelined = true;
  // GB/s: median of all repetitions of all rounds.
  double gbps = 0;
  double gbps_low = 0;  // Slowest and fastest repetition.
  double gbps_high = 0;
  std::optional<double> mpi_gbps;         // Raw MPI, one buffer per message in flight.
  std::optional<double> mpi_memory_gbps;  // Raw MPI, with as much memory as the copy.
  std::optional<double> ucx_gbps;         // Raw UCX, if it is one of the relays.
  std::optional<double> ucx_memory_gbps;
  std::optional<double> local_gbps;
};

struct SweepResult {
  std::vector<Row> rows;
  std::optional<double> mpi_one_way_us;  // Message of 64 bytes.
  std::optional<double> ucx_one_way_us;
  bool local = false;  // This machine has a GPU.
};

// Fails at the first failure of a run through cuspan. If raw MPI, raw UCX or a local GPU is not
// available, the results omit it.
Result<SweepResult> Sweep(const SweepOptions& options);

}  // namespace cuspan::bench::bandwidth
