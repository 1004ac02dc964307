#include "launcher/agent/node/inventory.h"

#include <poll.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "launcher/host/wait_status.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// A driver with many GPUs takes seconds to start, and longer on a busy machine.
constexpr milliseconds kInventoryAnswerLimit{60'000};
// Time for a proxy to end by itself after its answer.
constexpr milliseconds kInventoryEndLimit{1'000};
// Time for a killed proxy to disappear.
constexpr milliseconds kInventoryKillLimit{500};

bool HasEnded(const ProxyChild& child, milliseconds limit) {
  pollfd waited{child.process.get(), POLLIN, 0};
  return ::poll(&waited, 1, static_cast<int>(limit.count())) > 0;
}

// Ends the proxy by closing its socket, after `patience` by SIGKILL, and returns its wait status.
// Empty if the driver keeps the process even then: it ends later, and the agent must not wait for
// it.
std::optional<int> EndInventory(ProxyChild& child, milliseconds patience) {
  child.socket = ControlSocket(UniqueFd());
  if (!HasEnded(child, patience)) {
    ::kill(child.pid, SIGKILL);
    if (!HasEnded(child, kInventoryKillLimit)) return std::nullopt;
  }
  int wait_status = 0;
  ::waitpid(child.pid, &wait_status, 0);
  return wait_status;
}

Result<InventoryAnswer> AnswerOf(Result<ProxyChild> asked, const char* driver) {
  CUSPAN_ASSIGN_OR_RETURN(ProxyChild child, std::move(asked));
  Result<InventoryAnswer> answer = child.socket.Expect<InventoryAnswer>(kInventoryAnswerLimit);
  const std::optional<int> wait_status = EndInventory(child, kInventoryEndLimit);
  if (answer.ok()) return answer;
  if (wait_status && (WIFSIGNALED(*wait_status) || WEXITSTATUS(*wait_status) != 0))
    return Status::Unavailable("listing the devices of driver '{}': {}", driver,
                               "its proxy " + DescribeExit(*wait_status));
  return answer.status();
}

Inventory InventoryOf(Result<ProxyChild> asked, const char* driver) {
  Result<InventoryAnswer> answer = AnswerOf(std::move(asked), driver);
  if (!answer.ok()) return {{}, answer.status().message()};
  if (answer->devices.empty() && answer->problem.empty())
    answer->problem = "the driver found no GPU";
  return {std::move(answer->devices), std::move(answer->problem)};
}

const char* FirstDriver(const std::string& setting) { return setting == "soft" ? "soft" : "cuda"; }

}  // namespace

void InventoryQuery::Drop() {
  if (asked_ && asked_->ok()) EndInventory(**asked_, milliseconds(0));
  asked_.reset();
}

Result<ProxyChild> InventoryQuery::Ask(const char* driver) const {
  CUSPAN_ASSIGN_OR_RETURN(ProxyChild child, SpawnProxy(executable_, environment_, -1, 0));
  // If the proxy dies here, it gives no answer, and its exit status contains the reason.
  static_cast<void>(child.socket.Send(InventoryRequest{driver, fresh_}).ok());
  return child;
}

void InventoryQuery::Begin() {
  if (!asked_) asked_.emplace(Ask(FirstDriver(setting_)));
}

Inventory InventoryQuery::Collect(const std::string& host, std::uint32_t rank) {
  Begin();
  Inventory found = InventoryOf(*std::exchange(asked_, std::nullopt), FirstDriver(setting_));
  if (found.devices.empty()) found.problem = Format("host {}: {}", host, found.problem);
  if (found.devices.empty() && setting_ == "auto") {
    Inventory soft = InventoryOf(Ask("soft"), "soft");
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
