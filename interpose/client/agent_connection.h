// The connection of this process to the agent of its node, over the socket that the environment
// names.
#pragma once

#include <cuda.h>

#include <memory>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/device_opener.h"
#include "protocol/channel/bell.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// Any thread: one question at a time is asked, and other devices' work goes on meanwhile.
class AgentConnection : public DeviceOpener {
 public:
  // What the agent said when this process introduced itself.
  struct Introduced {
    std::unique_ptr<AgentConnection> agent;
    Bell bell;        // Which all proxies of the session ring.
    CUresult result;  // Why there are no devices.
    std::vector<DeviceDescription> devices;
  };
  // kUnavailable when the program was not started by `cuspan run`; otherwise as the socket says, or
  // kRefused with the agent's reason. Begins the tracing of this process where the run is traced.
  static Result<Introduced> Introduce();
  // The same for one who only asks about devices (observers.h): all that the run has for this
  // process, whatever CUDA_VISIBLE_DEVICES says, as NVML counts them.
  static Result<Introduced> IntroduceObserver();

  // Has a forked child close the connections of its parent. A fork takes the locks of those first
  // who registered last: who makes or ends connections with a lock held that a fork takes, too,
  // calls this before it registers that.
  static void HandleForks();

  AgentConnection(const AgentConnection&) = delete;
  ~AgentConnection() override;

  Result<Opened> Open(const OpenDevice& request, int region) override;
  Status Close(std::uint32_t context) override;
  Status Join(const JoinDevices& request) override;
  bool Gone() const override;
  pid_t process() const override;

 private:
  static Result<Introduced> Introduce(bool observer);
  explicit AgentConnection(ControlSocket socket);
  // A child process has its own: the parent's sessions end with the parent.
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  Mutex mutex_;  // Held for a question and its answer; Gone needs none.
  ControlSocket socket_;
};

}  // namespace cuspan
