// Source of a session's devices: the agent of this node (agent_connection.h), or a test.
#pragma once

#include <sys/types.h>

#include "common/status.h"
#include "common/unique_fd.h"
#include "ops.gen.h"

namespace cuspan {

// Threads: any.
class DeviceOpener {
 public:
  virtual ~DeviceOpener() = default;

  struct Opened {
    DeviceOpened answer;
    // Channel to the device's proxy, and the proxy's bell; valid if answer.result is CUDA_SUCCESS.
    UniqueFd channel;
    UniqueFd bell;
  };
  // `region`: file of the program's shared region, -1 if it has no region; not kept. Waits for the
  // device's proxy to start.
  virtual Result<Opened> Open(const OpenDevice& request, int region) = 0;
  // Ends the context's proxy. Nothing more is expected of the proxy on return: its channel may be
  // closed.
  virtual Status Close(std::uint32_t context) = 0;
  // Requests a channel between the proxies of two contexts, without waiting for it.
  virtual Status Join(const JoinDevices& request) = 0;
  // True if the agent has ended, and all devices are lost. Does not block.
  virtual bool Gone() const = 0;
  // Process answering the requests; 0: unknown.
  virtual pid_t process() const { return 0; }
};

}  // namespace cuspan
