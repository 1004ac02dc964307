// A process of cuspan-proxy, as its agent starts it.
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
  UniqueFd process;  // Readable when it has ended; then it is to be waited for.
  ControlSocket socket;
};

// Starts `executable`; it does nothing before it reads the first message from the socket, and dies
// with the calling thread. It has a copy of `lease`, unless that is -1.
Result<ProxyChild> SpawnProxy(const std::string& executable, const Environment& environment,
                              int lease, int niceness);

}  // namespace cuspan
