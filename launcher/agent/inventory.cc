#include "launcher/agent/inventory.h"

namespace cuspan {
namespace {

Inventory Ask(ProxyHouse& proxies, const char* driver) {
  Result<InventoryAnswer> answer = proxies.Inventory(driver);
  if (!answer.ok()) return {{}, answer.status().message()};
  if (answer->devices.empty() && answer->problem.empty()) answer->problem = "the driver finds none";
  return {std::move(answer->devices), std::move(answer->problem)};
}

}  // namespace

Inventory TakeInventory(ProxyHouse& proxies, const std::string& setting, const std::string& host,
                        std::uint32_t rank) {
  Inventory found;
  if (setting == "soft") {
    found = Ask(proxies, "soft");
    if (found.devices.empty())
      found.problem = fmt::format("host {} has no software GPU: {}", host, found.problem);
  } else {
    found = Ask(proxies, "cuda");
    if (found.devices.empty()) {
      const std::string why = fmt::format("host {} has no usable GPU: {}", host, found.problem);
      if (setting == "cuda") {
        found.problem = why + "; add --device soft to use the software GPU";
      } else {
        Inventory soft = Ask(proxies, "soft");
        found.problem = soft.devices.empty()
                            ? fmt::format("{}; nor a software GPU: {}", why, soft.problem)
                            : why + "; using the software GPU";
        found.devices = std::move(soft.devices);
      }
    }
  }
  for (DeviceDescription& device : found.devices) {
    device.host = host;
    device.agent = rank;
  }
  return found;
}

}  // namespace cuspan
