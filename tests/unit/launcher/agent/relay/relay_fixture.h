// Two running agents in one process, and routes between them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/relay/relay.h"
#include "tests/unit/launcher/agent/relay/carriers.h"
#include "tests/unit/launcher/agent/relay/network.h"

namespace cuspan {

inline constexpr std::uint64_t kStagingBytes = 8192;

// One agent: its relay, and calls of its handlers.
struct AgentAtWork {
  AgentAtWork(Network& network, std::uint32_t rank, std::uint32_t lanes)
      : transport(network.Join(rank, 2)),
        bell(*Bell::Create()),
        carrier(*transport, lanes),
        relay(*transport, carrier, 2,
              {[this](std::uint32_t, const Frame& frame) { controls.push_back(frame.op()); },
               [this](RouteKey route, const std::string& reason) {
                 broken.emplace_back(route, reason);
               }}) {}
  std::unique_ptr<Transport> transport;
  Bell bell;
  LanesByTag carrier;
  std::vector<Op> controls;
  std::vector<std::pair<RouteKey, std::string>> broken;
  Relay relay;
};

// A route with the processes at both ends.
struct Line {
  Line(RouteKey key, AgentAtWork& head, AgentAtWork& worker, ChannelLayout layout)
      : key(key), client_bell(*Bell::Create()), proxy_bell(*Bell::Create()) {
    client = Make(layout, ChannelSide::kClient, client_bell, head, at_head);
    proxy = Make(layout, ChannelSide::kProxy, proxy_bell, worker, at_worker);
    worker.relay.Open(key, 0, at_worker);
    head.relay.Open(key, 1, at_head);
  }

  // Returns this end of a new channel. Sets `other` to the agent's end.
  static std::unique_ptr<Channel> Make(const ChannelLayout& layout, ChannelSide side, Bell& bell,
                                       AgentAtWork& agent, std::shared_ptr<Channel>& other) {
    UniqueFd fd = *Channel::Create(layout);
    const ChannelSide far =
        side == ChannelSide::kClient ? ChannelSide::kProxy : ChannelSide::kClient;
    other = std::move(*Channel::Attach(UniqueFd(::dup(fd.get())), far, &agent.bell,
                                       *Bell::Open(UniqueFd(::dup(bell.fd())))));
    return std::move(*Channel::Attach(std::move(fd), side, &bell,
                                      *Bell::Open(UniqueFd(::dup(agent.bell.fd())))));
  }

  RouteKey key;
  Bell client_bell;
  Bell proxy_bell;
  std::shared_ptr<Channel> at_head;
  std::shared_ptr<Channel> at_worker;
  std::unique_ptr<Channel> client;
  std::unique_ptr<Channel> proxy;
};

// Parameter: number of lanes.
class RelayTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  // Runs both relays until they are idle.
  void Settle() {
    while (head_.relay.Progress() | worker_.relay.Progress()) {
    }
  }
  std::unique_ptr<Line> NewLine(std::uint32_t session, std::uint32_t device,
                                ChannelLayout layout = Small()) {
    auto line = std::make_unique<Line>(RouteKey{session, device}, head_, worker_, layout);
    Settle();
    return line;
  }
  static ChannelLayout Small() { return {4096, 4, kStagingBytes}; }
  static std::optional<FrameHeader> Receive(Channel& channel) {
    const Result<std::optional<Frame>> frame = channel.Peek();
    EXPECT_TRUE(frame.ok());
    if (!frame.ok() || !frame->has_value()) return std::nullopt;
    const FrameHeader header = (*frame)->header;
    channel.Pop();
    return header;
  }
  static void PostChunk(Channel& channel, std::uint64_t offset, std::uint32_t bytes,
                        std::uint8_t pattern) {
    const std::optional<std::uint32_t> slot = channel.TryAcquireSlot();
    ASSERT_TRUE(slot);
    std::memset(channel.OutgoingSlot(*slot), pattern, bytes);
    channel.Post(Chunk{7, offset, bytes, *slot});
  }

  Network network_;
  AgentAtWork head_{network_, 0, GetParam()};
  AgentAtWork worker_{network_, 1, GetParam()};
};

}  // namespace cuspan
