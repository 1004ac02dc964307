// Both ends of a channel in one process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "protocol/channel/channel.h"

namespace cuspan {

// Limit of waits ending at once. If something is broken, CTest's time-out ends the test.
inline constexpr std::chrono::hours kForEver{1};

// Its name differs from the agents' function: the linker merges inline functions of one name.
inline UniqueFd AnotherFd(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

inline Bell NewBell() {
  Result<Bell> bell = Bell::Create();
  EXPECT_TRUE(bell.ok()) << bell.status().message();
  return *std::move(bell);
}

// The same bell, opened as in another process.
inline Bell OtherEnd(const Bell& bell) {
  Result<Bell> other = Bell::Open(AnotherFd(bell.fd()));
  EXPECT_TRUE(other.ok()) << other.status().message();
  return *std::move(other);
}

// The smallest ring for two of the largest frames.
inline constexpr ChannelLayout kSmallLayout{2048, 4, 4096};

struct ChannelEnds {
  explicit ChannelEnds(const ChannelLayout& layout = kSmallLayout) {
    Result<UniqueFd> created = Channel::Create(layout);
    EXPECT_TRUE(created.ok()) << created.status().message();
    memory = *std::move(created);
    client = Attach(ChannelSide::kClient, &client_bell, proxy_bell);
    proxy = Attach(ChannelSide::kProxy, &proxy_bell, client_bell);
  }

  std::unique_ptr<Channel> Attach(ChannelSide side, Bell* own, const Bell& peer) const {
    Result<std::unique_ptr<Channel>> channel =
        Channel::Attach(AnotherFd(memory.get()), side, own, OtherEnd(peer));
    EXPECT_TRUE(channel.ok()) << channel.status().message();
    return *std::move(channel);
  }

  Bell client_bell = NewBell();
  Bell proxy_bell = NewBell();
  UniqueFd memory;
  std::unique_ptr<Channel> client;
  std::unique_ptr<Channel> proxy;
};

// Waits for the next frame of `channel`. Nothing if it is closed and all frames were taken.
inline std::optional<Frame> NextFrame(Channel& channel) {
  for (;;) {
    Result<std::optional<Frame>> frame = channel.Peek();
    EXPECT_TRUE(frame.ok()) << frame.status().message();
    if (!frame.ok()) return std::nullopt;
    if (frame->has_value()) return **frame;
    if (channel.closed()) return std::nullopt;
    channel.own_bell().Wait([&] { return channel.HasFrame() || channel.closed(); }, kForEver,
                            WaitStages::ForThisMachine());
  }
}

}  // namespace cuspan
