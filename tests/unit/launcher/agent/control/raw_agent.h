// An agent played by a test: it sends any control message to the real ones, and keeps theirs.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/agent/relay/relay.h"
#include "tests/unit/launcher/agent/relay/network.h"

namespace cuspan {

// Threads: one.
class RawAgent {
 public:
  RawAgent(Network& network, std::uint32_t rank, std::uint32_t agents)
      : transport_(network.Join(rank, agents)),
        relay_(*transport_, carrier_, 2,
               {[this](std::uint32_t from, const Frame& frame) {
                  received_.push_back({from, frame.header, Copy(frame.payload)});
                },
                [](RouteKey, const std::string&) {}}) {}

  Transport& transport() { return *transport_; }
  Relay& relay() { return relay_; }

  template <typename T>
  void Send(std::uint32_t rank, const T& message) {
    relay_.SendControl(rank, message);
    relay_.Progress();
  }
  // The next message T of the agent, removed from the received ones. Waits for it without a limit
  // but the test's own time-out.
  template <typename T>
  T Await(std::uint32_t rank) {
    for (;;) {
      for (auto one = received_.begin(); one != received_.end(); ++one) {
        if (one->from != rank || static_cast<Op>(one->header.op) != T::kOp) continue;
        const Received found = std::move(*one);
        received_.erase(one);
        return *ParseMessage<T>(Frame{found.header, found.payload});
      }
      if (!relay_.Progress()) std::this_thread::yield();
    }
  }
  // True if a message T of the agent has been received and not awaited.
  template <typename T>
  bool Has(std::uint32_t rank) const {
    for (const Received& one : received_)
      if (one.from == rank && static_cast<Op>(one.header.op) == T::kOp) return true;
    return false;
  }
  // Returns when the agent has handled all messages sent to it so far. It must be a worker, and
  // this agent the head.
  void Settle(std::uint32_t rank) {
    Send(rank, TraceClock{++question_, 0});
    while (Await<TraceClock>(rank).asked != question_) {
    }
  }

 private:
  struct Received {
    std::uint32_t from;
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  static std::vector<std::byte> Copy(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

  std::unique_ptr<Transport> transport_;
  OwnCarrier carrier_{*transport_};
  std::deque<Received> received_;
  Relay relay_;
  std::uint64_t question_ = 0;
};

}  // namespace cuspan
