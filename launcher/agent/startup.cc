#include "launcher/agent/startup.h"

#include "launcher/run/secure_network.h"

namespace cuspan {
namespace {

// Returns the message T; a Refused in its place becomes an error.
template <typename T>
Result<T> Expect(Transport& transport, std::uint32_t rank) {
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, transport.ReceiveWhole(rank));
  CUSPAN_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(bytes, kMaxControlBytes));
  if (frame.op() == Op::kRefused) {
    CUSPAN_ASSIGN_OR_RETURN(Refused refused, ParseMessage<Refused>(frame));
    return Status::Refused("{}", refused.reason);
  }
  return ParseMessage<T>(frame);
}

Status CheckHello(const AgentHello& hello, const Key128& secret, const std::string& own_host) {
  if (hello.table_hash != kOpTableHash)
    return Status::Refused(
        "hosts {} and {} run different versions of cuspan: install one version everywhere",
        own_host, hello.host);
  if (!SameSecret(hello.secret, secret))
    return Status::Refused("the agents on hosts {} and {} belong to different runs", own_host,
                           hello.host);
  return Status::Ok();
}

}  // namespace

Result<std::vector<AgentInventory>> MeetAgents(Transport& transport, std::uint32_t agents,
                                               const AgentHello& own) {
  AgentHello said = own;
  if (transport.proved()) said.secret = {};
  for (std::uint32_t rank = 1; rank < agents; ++rank)
    CUSPAN_RETURN_IF_ERROR(transport.SendWhole(rank, MakeFrame(said)));
  std::vector<AgentInventory> inventories;
  Status failure;
  for (std::uint32_t rank = 1; rank < agents; ++rank) {
    Result<AgentHello> hello = Expect<AgentHello>(transport, rank);
    if (!hello.ok()) {
      failure = Status(hello.status().code(), hello.status().message());
      continue;  // No inventory follows a refusal.
    }
    const Status checked = CheckHello(*hello, said.secret, own.host);
    Result<AgentInventory> inventory = Expect<AgentInventory>(transport, rank);
    if (!checked.ok()) {
      failure = checked;
    } else if (!inventory.ok()) {
      failure = Status::Unavailable("the agent on host {}: {}", hello->host,
                                    inventory.status().message());
    } else {
      inventory->rank = rank;
      for (DeviceDescription& device : inventory->devices) {
        device.host = hello->host;
        device.agent = rank;
      }
      inventories.push_back(std::move(*inventory));
    }
  }
  if (!failure.ok()) return failure;
  return inventories;
}

Result<AgentHello> AwaitInvitation(Transport& transport, const RunKey* key,
                                   const std::string& own_host) {
  Result<AgentHello> head = Expect<AgentHello>(transport, 0);
  Status checked = head.status();
  const bool proved = transport.proved() && key != nullptr;
  if (head.ok()) {
    const Key128& told = key != nullptr ? key->secret : head->secret;
    checked = CheckHello(*head, proved ? Key128{} : told, own_host);
    // Refused with --secure if this agent has no encrypting interface.
    if (checked.ok()) checked = SecureInterfacesOfRun().status();
  }
  if (!checked.ok()) {
    // If this fails, the head agent is gone.
    static_cast<void>(transport.SendWhole(0, MakeFrame(Refused{checked.message()})));
    return checked;
  }
  AgentHello own = *head;
  own.rank = transport.rank();
  own.host = own_host;
  CUSPAN_RETURN_IF_ERROR(transport.SendWhole(0, MakeFrame(own)));
  if (proved) head->secret = key->secret;
  return head;
}

Status SendInventory(Transport& transport, const AgentInventory& inventory) {
  return transport.SendWhole(0, MakeFrame(inventory));
}

}  // namespace cuspan
