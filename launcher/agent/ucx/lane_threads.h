// Lanes where UCX is the transport: threads of the agent, each with a worker of its own.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/status.h"
#include "launcher/agent/meeting/meeting.h"
#include "launcher/agent/ucx/ucx_transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// One thread makes and destroys it.
class LaneThreads {
 public:
  // A thread for each worker, whose ends in the meeting are those behind the agent's own.
  static Result<std::unique_ptr<LaneThreads>> Start(std::vector<std::unique_ptr<UcxWorker>> workers,
                                                    const Meeting& meeting);
  // The agent has told all lanes that the run has ended, or has closed their sockets. Connections
  // end here, not when the lanes end: the other agents are through, too.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;

  // To the lanes; once.
  std::vector<ControlSocket> TakeSockets() { return std::move(sockets_); }

 private:
  LaneThreads() = default;
  void Run(Transport& transport, ControlSocket socket) const;

  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<ControlSocket> sockets_;
  std::vector<std::thread> threads_;
  std::atomic<bool> ending_{false};
};

}  // namespace cuspan
