// Which rank of the MPI job is what: first the agents, the head agent as 0, then
// the lanes of each agent in the agents' order.
//
// Lanes are ranks beside an agent that move bulk and nothing else: one MPI
// process does not fill a fast link, and threads inside it do not add up.
#pragma once

#include <cstdint>

#include "common/status.h"

namespace cuspan {

struct Ranks {
  std::uint32_t agents = 1;
  std::uint32_t lanes = 0;  // Of each agent; 0: the agents move bulk themselves.

  // In a job of `size` ranks with `lanes` as CUSPAN_LANES counts them: 1 is an agent alone.
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
  // Of a lane.
  std::uint32_t AgentOf(std::uint32_t rank) const { return (rank - agents) / lanes; }
  std::uint32_t LaneOf(std::uint32_t rank) const { return (rank - agents) % lanes; }
};

}  // namespace cuspan
