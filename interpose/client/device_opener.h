// Who gives a session its devices: the agent of this node (agent_connection.h), or a test.
#pragma once

#include <sys/types.h>

#include "common/status.h"
#include "common/unique_fd.h"
#include "ops.gen.h"

namespace cuspan {

// Any thread.
class DeviceOpener {
 public:
  virtual ~DeviceOpener() = default;

  struct Opened {
    DeviceOpened answer;
    // The channel to the device's proxy and that one's bell; where answer.result is CUDA_SUCCESS.
    UniqueFd channel;
    UniqueFd bell;
  };
  // `region`: the file of the program's shared region, or -1 where it has none. It is not kept.
  // Waits for the device's proxy to start.
  virtual Result<Opened> Open(const OpenDevice& request, int region) = 0;
  // The context's proxy ends. Returns when nothing more is expected of it: from then on its channel
  // may be closed.
  virtual Status Close(std::uint32_t context) = 0;
  // Gives the proxies of two contexts a channel between them. Does not wait for that.
  virtual Status Join(const JoinDevices& request) = 0;
  // Whether there is nobody to ask any more, so that all devices are lost. Does not wait.
  virtual bool Gone() const = 0;
  // The process that is asked; 0 where that is unknown.
  virtual pid_t process() const { return 0; }
};

}  // namespace cuspan
