#include "launcher/agent/inventory.h"

namespace cuspan {
namespace {

Inventory Ask(ProxyHouse& proxies, const char* driver) {
  Result<InventoryAnswer> answer = proxies.Inventory(driver);
  if (!answer.ok()) return {{}, answer.status().message()};
  if (answer->devices.empty() && answer->problem.empty())
    answer->problem = "the driver found no GPU";
  return {std::move(answer->devices), std::move(answer->problem)};
}

}  // namespace

Inventory TakeInventory(ProxyHouse& proxies, const std::string& setting, const std::string& host,
                        std::uint32_t rank) {
  Inventory found = Ask(proxies, setting == "soft" ? "soft" : "cuda");
  if (found.devices.empty()) found.problem = Format("host {}: {}", host, found.problem);
  if (found.devices.empty() && setting == "auto") {
    Inventory soft = Ask(proxies, "soft");
    found.problem = soft.devices.empty()
                        ? Format("{}; the software GPU is not available either: {}", found.problem,
                                 soft.problem)
                        : Format("using the software GPU on {}", found.problem);
    found.devices = std::move(soft.devices);
  }
  for (DeviceDescription& device : found.devices) {
    device.host = host;
    device.agent = rank;
  }
  return found;
}

}  // namespace cuspan
