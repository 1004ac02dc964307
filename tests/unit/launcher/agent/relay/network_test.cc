// The tests' transport in memory keeps the contract of Transport.
#include "tests/unit/launcher/agent/relay/network.h"

#include "tests/unit/launcher/agent/relay/transport_contract.h"

namespace cuspan {
namespace {

// An agent keeps the network alive.
struct Member final : Endpoint {
  Member(std::shared_ptr<Network> shared, std::uint32_t rank, std::uint32_t size)
      : Endpoint(*shared, rank, size), network(std::move(shared)) {}
  const std::shared_ptr<Network> network;
};

INSTANTIATE_TEST_SUITE_P(Memory, TransportContract,
                         testing::Values(TransportKind{
                             "Threads",
                             [](std::uint32_t agents) {
                               const auto network = std::make_shared<Network>();
                               std::vector<std::unique_ptr<Transport>> all;
                               for (std::uint32_t rank = 0; rank < agents; ++rank)
                                 all.push_back(std::make_unique<Member>(network, rank, agents));
                               return all;
                             }}),
                         NameOfKind);

}  // namespace
}  // namespace cuspan
