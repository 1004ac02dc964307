#include "launcher/agent/mpi/lane_processes.h"

#include <poll.h>
#include <unistd.h>

#include <optional>

#include "common/log.h"
#include "launcher/agent/relay/lane.h"
#include "launcher/run/run_key.h"
#include "protocol/channel/reception.h"

namespace cuspan {
namespace {

// Time for all lanes of this node to connect and introduce themselves.
constexpr std::chrono::milliseconds kJoinLimit{30'000};
// Time limit for ending MPI, not less than that of agents. All ranks of the job end together, and
// agents of a traced run deliver their records first.
constexpr unsigned kShutdownSeconds = 65;

Result<LaneHello> AwaitAgent(Transport& transport, const Ranks& ranks) {
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          transport.ReceiveWhole(ranks.AgentOf(transport.rank())));
  CUSPAN_ASSIGN_OR_RETURN(Frame frame, ParseFrame(bytes, kMaxControlBytes));
  CUSPAN_ASSIGN_OR_RETURN(LaneHello hello, ParseMessage<LaneHello>(frame));
  if (hello.table_hash != kOpTableHash)
    return Status::Refused(
        "the agent and the lanes of a host run different versions of cuspan: install one version");
  return hello;
}

}  // namespace

Result<std::vector<ControlSocket>> InviteLanes(Transport& transport, const Ranks& ranks) {
  std::vector<ControlSocket> lanes;
  if (ranks.lanes == 0) return lanes;
  // Known only to this agent's lanes, to which it is sent over MPI.
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Random());
  const std::string address = key.Address() + "-lanes";
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(address));
  for (std::uint32_t lane = 0; lane < ranks.lanes; ++lane)
    CUSPAN_RETURN_IF_ERROR(
        transport.SendWhole(ranks.LaneRank(transport.rank(), lane),
                            MakeFrame(LaneHello{key.secret, kOpTableHash, address})));

  std::vector<std::optional<ControlSocket>> joined(ranks.lanes);
  const auto deadline = std::chrono::steady_clock::now() + kJoinLimit;
  for (std::uint32_t count = 0; count < ranks.lanes;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waited{reception.fd(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) == 0)
      return Status::Unavailable("{} of {} lanes did not connect to this agent within {} s",
                                 ranks.lanes - count, ranks.lanes, kJoinLimit.count() / 1000);
    std::optional<Reception::Arrival> arrival = reception.Next();
    if (!arrival) continue;
    const Result<LaneJoin> join = ParseMessage<LaneJoin>(arrival->first.frame);
    if (!join.ok() || !SameSecret(join->secret, key.secret) || join->lane >= joined.size() ||
        joined[join->lane]) {
      LogWarn("a process that is not a lane of this agent tried to connect as one");
      Reception::Refuse(std::move(*arrival), "not a lane of this agent");
      continue;
    }
    joined[join->lane].emplace(std::move(arrival->socket));
    ++count;
  }
  for (std::optional<ControlSocket>& lane : joined) lanes.push_back(std::move(*lane));
  return lanes;
}

Status ServeAsLane(Transport& transport, const Ranks& ranks) {
  const std::uint32_t lane = ranks.LaneOf(transport.rank());
  CUSPAN_ASSIGN_OR_RETURN(LaneHello hello, AwaitAgent(transport, ranks));
  Result<ControlSocket> socket = ControlSocket::Connect(hello.address);
  if (!socket.ok())
    return Status::Unavailable("{}; the lanes of an agent must run on its host",
                               socket.status().message());
  CUSPAN_RETURN_IF_ERROR(socket->Send(LaneJoin{hello.secret, lane}));
  std::vector<std::uint32_t> peers;
  for (std::uint32_t agent = 0; agent < ranks.agents; ++agent)
    peers.push_back(ranks.LaneRank(agent, lane));
  return ServeLane(transport, std::move(peers), std::move(*socket), [&transport] {
    ::alarm(kShutdownSeconds);
    transport.Shutdown();
    ::alarm(0);
  });
}

}  // namespace cuspan
