// A cuspan-proxy process started by its agent.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/host/environment.h"
#include "protocol/channel/socket.h"

namespace cuspan {

struct ProxyChild {
  pid_t pid;
  UniqueFd process;  // A pidfd, readable when it has ended and must be waited for.
  ControlSocket socket;
};

// Starts `executable`. It does nothing before it reads the first message from the socket, and dies
// with the calling thread. It inherits `lease`, unless this is -1.
Result<ProxyChild> SpawnProxy(const std::string& executable, const Environment& environment,
                              int lease, int niceness);

}  // namespace cuspan
