// Roles of the MPI job's ranks: first the agents, with the head agent as 0, then the lanes of each
// agent in the agents' order.
//
// Lanes are ranks beside an agent, for bulk only: one MPI process does not saturate a fast link,
// and threads inside it do not help.
#pragma once

#include <cstdint>

#include "common/status.h"

namespace cuspan {

struct Ranks {
  std::uint32_t agents = 1;
  std::uint32_t lanes = 0;  // Per agent; 0: agents move bulk themselves.

  // Roles in a job of `size` ranks. `lanes`: value of CUSPAN_LANES; 1: agents without lanes.
  static Result<Ranks> Of(std::uint32_t size, std::uint32_t lanes) {
    const std::uint32_t each = lanes > 1 ? 1 + lanes : 1;
    if (size == 0 || size % each != 0)
      return Status::Invalid(
          "CUSPAN_LANES={} needs {} ranks on each host (an agent and {} lanes), but the job has {} "
          "in all",
          lanes, each, each - 1, size);
    return Ranks{size / each, each - 1};
  }

  bool is_lane(std::uint32_t rank) const { return rank >= agents; }
  std::uint32_t LaneRank(std::uint32_t agent, std::uint32_t lane) const {
    return agents + agent * lanes + lane;
  }
  // `rank`: rank of a lane.
  std::uint32_t AgentOf(std::uint32_t rank) const { return (rank - agents) / lanes; }
  std::uint32_t LaneOf(std::uint32_t rank) const { return (rank - agents) % lanes; }
};

}  // namespace cuspan
