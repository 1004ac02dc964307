// Transport over UCX (ucp layer, 1.12 or later): active messages for frames and for bulk, over
// endpoints created at the first message to a peer. Only this folder uses UCX.
//
// Each message begins with a header containing the token of the run's meeting. Any process able to
// reach this host may connect to UCX's port; messages without the token are dropped. UCX's internal
// handling of peers cannot be checked here (docs/security.md).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/status.h"
#include "launcher/agent/meeting/meeting.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// This process's end of all connections. UCX reads its own variables (UCX_TLS, UCX_NET_DEVICES, …).
class UcxWorker {
 public:
  // kUnavailable, with UCX's reason.
  static Result<std::unique_ptr<UcxWorker>> Create();
  virtual ~UcxWorker() = default;
  UcxWorker(const UcxWorker&) = delete;

  // Address for reaching the worker.
  virtual Result<Meeting::Address> address() const = 0;
  // Creates the transport of a run after its meeting and takes ownership of the worker. `end`:
  // index of the worker's address in each agent's list.
  static Result<std::unique_ptr<Transport>> Join(std::unique_ptr<UcxWorker> worker, Meeting meeting,
                                                 std::size_t end = 0);

 protected:
  UcxWorker() = default;
};

// Loaded library and version, for example "UCX 1.13.1".
std::string UcxRelease();

}  // namespace cuspan
