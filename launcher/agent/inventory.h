// The devices of an agent's node: which driver works there, and what it has.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/proxy_process.h"

namespace cuspan {

struct Inventory {
  std::vector<DeviceDescription> devices;  // host and agent are filled in.
  // Without devices why there are none; with devices what is worth knowing about
  // them. A sentence, or empty.
  std::string problem;
};

// Asks the driver that `setting` (cuda, soft or auto) names. Waits for the answer.
Inventory TakeInventory(ProxyHouse& proxies, const std::string& setting, const std::string& host,
                        std::uint32_t rank);

// The driver that serves a device, as proxies understand it.
inline const char* DriverOf(const DeviceDescription& device) {
  return device.software ? "soft" : "cuda";
}

}  // namespace cuspan
