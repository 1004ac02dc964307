// Lanes over UCX: threads of the agent, each with a worker of its own.
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

// Threads: one creates and destroys it.
class LaneThreads {
 public:
  // Starts a thread for each worker. The workers' addresses in the meeting follow the agent's own.
  static Result<std::unique_ptr<LaneThreads>> Start(std::vector<std::unique_ptr<UcxWorker>> workers,
                                                    const Meeting& meeting);
  // Called after the agent has ended all lanes or closed their sockets. Connections are closed here
  // and not by each lane: by now, the other agents have finished too.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;

  // Sockets to the lanes; call it once.
  std::vector<ControlSocket> ExtractSockets() { return std::move(sockets_); }

 private:
  LaneThreads() = default;
  void Run(Transport& transport, ControlSocket socket) const;

  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<ControlSocket> sockets_;
  std::vector<std::thread> threads_;
  std::atomic<bool> ending_{false};
};

}  // namespace cuspan
