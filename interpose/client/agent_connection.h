// The connection of this process to its node's agent, over the socket named by the environment.
#pragma once

#include <cuda.h>

#include <memory>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/device_opener.h"
#include "protocol/channel/bell.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// The run's secret, or nothing in a process started outside of a run. Threads: any.
std::optional<Key128> SecretOfRun();

// Threads: any. One request is in flight at a time; work of other devices goes on meanwhile.
class AgentConnection : public DeviceOpener {
 public:
  // The agent's answer to the introduction of this process.
  struct Introduced {
    std::unique_ptr<AgentConnection> agent;
    Bell bell;        // Rung by all proxies of the session.
    CUresult result;  // Reason for a lack of devices.
    std::vector<DeviceDescription> devices;
  };
  // kUnavailable if the program was not started by `cuspan run`; otherwise errors of the socket, or
  // kRefused with the agent's reason. Starts the tracing of this process if the run is traced.
  static Result<Introduced> Introduce();
  // The same for queries about devices only (observers.h): all devices of the run for this process,
  // in NVML's order, regardless of CUDA_VISIBLE_DEVICES.
  static Result<Introduced> IntroduceObserver();

  // Makes a forked child close its parent's connections. fork runs the handlers registered last
  // first. If code makes or ends connections while holding a lock of its own fork handlers, it must
  // call this before registering them.
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
  // A child process makes a connection of its own: the parent's sessions end with the parent.
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  Mutex mutex_;  // Held during a request and its answer, but not by Gone.
  ControlSocket socket_;
};

}  // namespace cuspan
