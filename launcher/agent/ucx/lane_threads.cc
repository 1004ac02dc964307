#include "launcher/agent/ucx/lane_threads.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "launcher/agent/relay/lane.h"

namespace cuspan {
namespace {

// Time between two checks of ending_.
constexpr int kPollMilliseconds = 20;
// Time limit for all threads to end; then SIGALRM kills the process.
constexpr unsigned kThreadsEndSeconds = 10;

}  // namespace

void LaneThreads::Run(Transport& transport, ControlSocket socket) const {
  std::vector<std::uint32_t> peers(transport.size());
  std::iota(peers.begin(), peers.end(), 0U);
  // Peers may need this end until all agents have finished.
  const auto linger = [this, &transport] {
    std::vector<std::uint64_t> unused;
    while (!ending_.load(std::memory_order_acquire)) {
      transport.FinishedBulk(unused);
      pollfd waited{transport.wake_fd(), POLLIN, 0};
      ::poll(&waited, 1, transport.Arm() == Transport::Rest::kUntilWoken ? kPollMilliseconds : 1);
    }
  };
  const Status served = ServeLane(transport, std::move(peers), std::move(socket), linger);
  if (served.ok()) return;
  // Transfers in flight on this lane would never finish.
  LogError("a lane of this agent failed: {}", served.message());
  std::_Exit(EXIT_FAILURE);
}

Result<std::unique_ptr<LaneThreads>> LaneThreads::Start(
    std::vector<std::unique_ptr<UcxWorker>> workers, const Meeting& meeting) {
  std::unique_ptr<LaneThreads> lanes(new LaneThreads);
  for (std::size_t lane = 0; lane < workers.size(); ++lane) {
    CUSPAN_ASSIGN_OR_RETURN(Meeting of_lane, meeting.WithoutConnections());
    CUSPAN_ASSIGN_OR_RETURN(
        std::unique_ptr<Transport> transport,
        UcxWorker::Join(std::move(workers[lane]), std::move(of_lane), 1 + lane));
    CUSPAN_ASSIGN_OR_RETURN(auto ends, ControlSocket::Pair());
    lanes->sockets_.push_back(std::move(ends.first));
    lanes->transports_.push_back(std::move(transport));
    try {
      lanes->threads_.emplace_back(&LaneThreads::Run, lanes.get(),
                                   std::ref(*lanes->transports_.back()), std::move(ends.second));
    } catch (const std::system_error& error) {
      return Status::Exhausted("the thread of a lane cannot be started: {}", error.what());
    }
  }
  return lanes;
}

LaneThreads::~LaneThreads() {
  ending_.store(true, std::memory_order_release);
  sockets_.clear();
  // A blocked thread must not block the end of the run.
  ::alarm(kThreadsEndSeconds);
  for (std::thread& thread : threads_) thread.join();
  ::alarm(0);
}

}  // namespace cuspan
