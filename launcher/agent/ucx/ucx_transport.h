// The transport over UCX (its ucp layer, 1.12 or later): active messages for frames and for bulk,
// over endpoints that are made when a peer is first talked to. The only place that knows UCX.
//
// Each message begins with a header that has the token of the run's meeting: anybody who reaches
// this host may connect to UCX's port, and a message without the token is dropped. What UCX does
// for a peer by itself is not ours to check (docs/security.md).
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
  // kUnavailable says what UCX has against it.
  static Result<std::unique_ptr<UcxWorker>> Create();
  virtual ~UcxWorker() = default;
  UcxWorker(const UcxWorker&) = delete;

  // Where UCX reaches it.
  virtual Result<Meeting::Address> address() const = 0;
  // The transport of a run whose agents have met with their workers' addresses, of which this
  // worker's is the one of that number. It has the worker.
  static Result<std::unique_ptr<Transport>> Join(std::unique_ptr<UcxWorker> worker, Meeting meeting,
                                                 std::size_t end = 0);

 protected:
  UcxWorker() = default;
};

// "UCX 1.13.1": the library that this process has.
std::string UcxRelease();

}  // namespace cuspan
