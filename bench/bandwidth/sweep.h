// Runs the measuring program in every place and with every setting that was
// asked for, raw MPI, raw UCX and the local GPU in between, and keeps what they said.
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
  std::vector<RelayKind> relays;  // Over agents.
  std::vector<std::string> placements = {"same-node", "agents"};
  std::vector<std::string> directions = {"to-device", "from-device", "both"};
  std::vector<std::string> memories = {"pinned", "pageable"};
  std::vector<std::uint64_t> transfers;
  std::vector<std::uint64_t> buffers;
  std::uint64_t buffer_count = 16;
  bool buffer_count_chosen = false;  // Else more where lanes take more, as cuspan run does.
  std::uint64_t sends = 8;
  bool sends_chosen = false;     // Else fewer where there are lanes.
  std::vector<int> lanes = {1};  // Over agents.
  std::vector<int> proxies = {1};
  std::vector<bool> pipelined = {true};
  int rounds = 3;
  double seconds = 0.5;  // For one measurement of one round, at most; two repetitions at least.
};

// One line of the results.
struct Row {
  std::string direction;
  std::string memory;
  std::string placement;
  std::string relay;  // Between agents: mpi or ucx.
  std::uint64_t transfer_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  int proxies = 1;
  int lanes = 1;
  std::uint64_t sends = 0;  // On their way on each lane.
  bool pipelined = true;
  // GB/s, medians of all repetitions of all rounds.
  double gbps = 0;
  double gbps_low = 0;  // The slowest and the fastest of them.
  double gbps_high = 0;
  std::optional<double> mpi_gbps;         // Raw MPI with as many buffers as are under way,
  std::optional<double> mpi_memory_gbps;  // and with as much memory as the copy;
  std::optional<double> ucx_gbps;         // raw UCX, where that is a relay of these results.
  std::optional<double> ucx_memory_gbps;
  std::optional<double> local_gbps;
};

struct SweepResult {
  std::vector<Row> rows;
  std::optional<double> mpi_one_way_us;  // 64 bytes.
  std::optional<double> ucx_one_way_us;
  bool local = false;  // There is a GPU in this machine.
};

// The first failure of a run through cuspan ends it; where raw MPI, raw UCX or a local GPU can not
// be had, the results lack them.
Result<SweepResult> Sweep(const SweepOptions& options);

}  // namespace cuspan::bench::bandwidth
