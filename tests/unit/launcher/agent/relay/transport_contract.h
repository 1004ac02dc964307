// Agents of a run over any transport, and the tests of Transport's contract (transport.h). A
// transport runs them by instantiating TransportContract with a function making a network, and
// listing transport_contract.cc among the sources of its test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Random bytes.
std::vector<std::byte> RandomBytes(std::size_t count, unsigned seed);

// Agents in one thread, polled in turn.
class PolledAgents : public testing::Test {
 protected:
  // Adds agents with the ranks 0, 1, ….
  void Add(std::vector<std::unique_ptr<Transport>> agents) {
    agents_ = std::move(agents);
    messages_.resize(agents_.size());
    finished_.resize(agents_.size());
  }

  // Polls all agents until done() is true. Arrivals are in messages_ and finished_.
  template <typename Done>
  void Until(Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing more comes";
      for (std::uint32_t rank = 0; rank < agents_.size(); ++rank) Poll(rank);
    }
  }
  void Poll(std::uint32_t rank) {
    if (agents_[rank] == nullptr) return;
    while (const auto message = agents_[rank]->TryReceive())
      messages_[rank].emplace_back(message->rank,
                                   std::vector(message->bytes.begin(), message->bytes.end()));
    agents_[rank]->FinishedBulk(finished_[rank]);
    while (const auto lost = agents_[rank]->ConsumeLost()) lost_.emplace_back(rank, lost->rank);
  }

  using Received = std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>;
  std::vector<std::unique_ptr<Transport>> agents_;
  std::vector<Received> messages_;
  std::vector<std::vector<std::uint64_t>> finished_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lost_;  // Reporting agent, lost agent.
};

struct TransportKind {
  std::string name;
  // Makes transports for so many agents, by rank. Empty if it fails.
  std::function<std::vector<std::unique_ptr<Transport>>(std::uint32_t agents)> make;
};

class TransportContract : public PolledAgents, public testing::WithParamInterface<TransportKind> {
 protected:
  void Start(std::uint32_t agents) {
    Add(GetParam().make(agents));
    ASSERT_EQ(agents_.size(), agents);
  }
};

inline std::string NameOfKind(const testing::TestParamInfo<TransportKind>& kind) {
  return kind.param.name;
}

}  // namespace cuspan
