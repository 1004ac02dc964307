// Devices of an agent's node: the working driver and its GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/proxy_child.h"
#include "launcher/host/environment.h"

namespace cuspan {

struct Inventory {
  std::vector<DeviceDescription> devices;  // Includes host and agent.
  // Without devices: the reason. With devices: a note about them. One sentence, or empty.
  std::string problem;
};

// Lists a driver's devices by means of a proxy started only for this. Threads: one.
class InventoryQuery {
 public:
  // `executable`, `environment`: of the proxy. `setting`: the driver, "cuda", "soft" or "auto".
  // `fresh`: the driver itself is asked, not the cache of the user's earlier runs.
  InventoryQuery(std::string executable, Environment environment, std::string setting, bool fresh)
      : executable_(std::move(executable)),
        environment_(std::move(environment)),
        setting_(std::move(setting)),
        fresh_(fresh) {}
  ~InventoryQuery() { Drop(); }
  InventoryQuery(const InventoryQuery&) = delete;

  // Starts the query without waiting. A driver takes a quarter of a second or more to start; the
  // meeting of agents can overlap with it.
  void Begin();
  // Waits for the answer; starts the query if Begin was not called.
  Inventory Collect(const std::string& host, std::uint32_t rank);
  // Cancels a query with an answer not needed any more.
  void Drop();

 private:
  Result<ProxyChild> Ask(const char* driver) const;

  const std::string executable_;
  const Environment environment_;
  const std::string setting_;
  const bool fresh_;
  std::optional<Result<ProxyChild>> asked_;
};

// The device's driver, in the proxies' terms.
inline const char* DriverOf(const DeviceDescription& device) {
  return device.software ? "soft" : "cuda";
}

}  // namespace cuspan
