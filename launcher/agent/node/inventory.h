// The devices of an agent's node: which driver works there, and what it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/proxy_child.h"
#include "launcher/host/environment.h"

namespace cuspan {

struct Inventory {
  std::vector<DeviceDescription> devices;  // host and agent are filled in.
  // Without devices why there are none; with devices what is worth knowing about
  // them. A sentence, or empty.
  std::string problem;
};

// Asks a driver, which a proxy starts that ends thereafter. One thread.
class InventoryQuery {
 public:
  // `executable` and `environment` are the proxy's; `setting` names the driver: cuda, soft or auto.
  InventoryQuery(std::string executable, Environment environment, std::string setting)
      : executable_(std::move(executable)),
        environment_(std::move(environment)),
        setting_(std::move(setting)) {}
  ~InventoryQuery() { Drop(); }
  InventoryQuery(const InventoryQuery&) = delete;

  // Asks, without waiting: a driver takes a quarter of a second or more to start, and so do agents
  // to meet.
  void Begin();
  // Waits for the answer; asks if nobody has begun.
  Inventory Take(const std::string& host, std::uint32_t rank);
  // Nobody needs the answer.
  void Drop();

 private:
  Result<ProxyChild> Ask(const char* driver) const;

  const std::string executable_;
  const Environment environment_;
  const std::string setting_;
  std::optional<Result<ProxyChild>> asked_;
};

// The driver that serves a device, as proxies understand it.
inline const char* DriverOf(const DeviceDescription& device) {
  return device.software ? "soft" : "cuda";
}

}  // namespace cuspan
