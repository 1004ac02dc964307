// Tests channels with several threads and between two processes: no frame is lost, duplicated or
// out of order, and every waiter is woken.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

// Posts until the ring is full.
std::uint32_t Fill(Channel& channel) {
  std::uint32_t posted = 0;
  while (channel.TryPost(FrameHeader{}, {})) ++posted;
  return posted;
}

TEST(ChannelThreads, PostWaitsForRoomAndGoesOn) {
  ChannelEnds ends;
  const std::uint32_t filled = Fill(*ends.client);
  constexpr std::uint32_t kMore = 3000;
  std::atomic<std::uint32_t> posted = 0;
  std::thread poster([&] {
    Signal signal;
    for (std::uint32_t i = 0; i < kMore; ++i) {
      signal.signal = i;
      EXPECT_GT(ends.client->Post(signal), 0U);
      ++posted;
    }
  });
  EXPECT_EQ(posted, 0U) << "there is no room";
  for (std::uint32_t i = 0; i < filled; ++i) {
    ASSERT_TRUE(NextFrame(*ends.proxy));
    ends.proxy->Pop();
  }
  for (std::uint32_t i = 0; i < kMore; ++i) {
    const std::optional<Frame> frame = NextFrame(*ends.proxy);
    ASSERT_TRUE(frame);
    EXPECT_EQ(ParseMessage<Signal>(*frame)->signal, i);
    ends.proxy->Pop();
  }
  poster.join();
}

TEST(ChannelThreads, ManyPostersLoseNothingAndKeepTheirOrder) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kFrames = 4000;
  ChannelEnds ends;
  std::vector<std::thread> posters;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    posters.emplace_back([&, thread] {
      std::vector<std::byte> data;
      std::uint64_t last_sequence = 0;
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        DeviceOutput message;
        data.assign(i % 500 == 0 ? 40000 : i % 600, static_cast<std::byte>(thread + i));
        message.data = data;
        const std::uint64_t sequence = ends.client->Post(message, thread << 16 | i);
        EXPECT_GT(sequence, last_sequence);
        last_sequence = sequence;
      }
    });
  }
  std::uint32_t next[kThreads] = {};
  std::uint64_t last_sequence = 0;
  for (std::uint32_t taken = 0; taken < kThreads * kFrames; ++taken) {
    const std::optional<Frame> frame = NextFrame(*ends.proxy);
    ASSERT_TRUE(frame);
    EXPECT_GT(frame->header.sequence, last_sequence);
    last_sequence = frame->header.sequence;
    const std::uint32_t thread = frame->header.request >> 16;
    ASSERT_LT(thread, kThreads);
    const std::uint32_t i = next[thread]++;
    ASSERT_EQ(frame->header.request & 0xffff, i) << "of thread " << thread;
    const Result<DeviceOutput> message = ParseMessage<DeviceOutput>(*frame);
    ASSERT_TRUE(message.ok());
    ASSERT_EQ(message->data.size(), i % 500 == 0 ? 40000 : i % 600);
    std::size_t wrong = 0;
    for (const std::byte b : message->data)
      wrong += b != static_cast<std::byte>(thread + i) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
    ends.proxy->Pop();
  }
  for (std::thread& poster : posters) poster.join();
  EXPECT_FALSE(ends.proxy->HasFrame());
}

TEST(ChannelThreads, CloseWakesEveryWaiter) {
  for (const bool by_client : {true, false}) {
    ChannelEnds ends;
    Fill(*ends.client);
    while (ends.client->TryAcquireSlot()) {
    }
    std::atomic<int> waiting = 0;
    std::vector<std::thread> waiters;
    for (int i = 0; i < 2; ++i) {
      waiters.emplace_back([&] {
        ++waiting;
        EXPECT_EQ(ends.client->Post(DeviceFault{}), 0U);
      });
      waiters.emplace_back([&] {
        ++waiting;
        EXPECT_FALSE(ends.client->AcquireSlot());
      });
      waiters.emplace_back([&] {
        ++waiting;
        EXPECT_TRUE(ends.client->own_bell().Wait([&] { return ends.client->closed(); }, kForEver,
                                                 WaitStages::ForThisMachine()));
      });
    }
    // The reader of the proxy.
    waiters.emplace_back([&] {
      ++waiting;
      while (NextFrame(*ends.proxy)) {
        if (ends.proxy->closed()) break;
        // Keeps the ring full: frames are read, but not removed.
        ends.proxy->own_bell().Wait([&] { return ends.proxy->closed(); }, kForEver,
                                    WaitStages::ForThisMachine());
      }
    });
    while (waiting != 7) std::this_thread::yield();
    (by_client ? ends.client : ends.proxy)->Close(true);
    for (std::thread& waiter : waiters) waiter.join();
  }
}

TEST(ChannelThreads, NoSlotIsEverHeldTwice) {
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kTurns = 3000;
  ChannelEnds ends;
  std::atomic<int> holders[64] = {};
  std::vector<std::thread> senders;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    senders.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < kTurns; ++i) {
        const std::optional<std::uint32_t> slot = ends.client->AcquireSlot();
        ASSERT_TRUE(slot);
        ASSERT_EQ(holders[*slot].fetch_add(1), 0) << "slot " << *slot;
        if (i % 7 == 0) {  // Returned unused.
          holders[*slot].fetch_sub(1);
          ends.client->ReturnSlot(*slot);
          continue;
        }
        const std::uint64_t mark = std::uint64_t{thread} << 32 | i;
        std::memcpy(ends.client->OutgoingSlot(*slot), &mark, sizeof mark);
        Chunk chunk;
        chunk.slot = *slot;
        chunk.transfer = mark;
        ASSERT_GT(ends.client->Post(chunk), 0U);
      }
    });
  }
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < kTurns; ++i) expected += i % 7 == 0 ? 0 : kThreads;
  for (std::uint32_t taken = 0; taken < expected; ++taken) {
    const std::optional<Frame> frame = NextFrame(*ends.proxy);
    ASSERT_TRUE(frame);
    const Result<Chunk> chunk = ParseMessage<Chunk>(*frame);
    ASSERT_TRUE(chunk.ok());
    std::uint64_t mark = 0;
    ASSERT_NE(ends.proxy->IncomingSlot(chunk->slot), nullptr);
    std::memcpy(&mark, ends.proxy->IncomingSlot(chunk->slot), sizeof mark);
    EXPECT_EQ(mark, chunk->transfer);
    ends.proxy->Pop();
    holders[chunk->slot].fetch_sub(1);
    ends.proxy->ReleaseSlot(chunk->slot);
  }
  for (std::thread& sender : senders) sender.join();
  std::uint32_t free = 0;
  while (ends.client->TryAcquireSlot()) ++free;
  EXPECT_EQ(free, kSmallLayout.staging_slots);
}

// Acts as a proxy: answers calls until the channel is closed.
int Answer(Channel& channel) {
  while (const std::optional<Frame> frame = NextFrame(channel)) {
    const std::uint32_t request = frame->header.request;
    if (frame->op() == Op::kMemoryInfo) {
      channel.Pop();
      MemoryInfo::Reply reply;
      reply.total = request * 3;
      if (channel.Reply<MemoryInfo>(request, reply) == 0) return 2;
      continue;
    }
    if (frame->op() == Op::kChunk) {
      const Result<Chunk> chunk = ParseMessage<Chunk>(*frame);
      channel.Pop();
      if (!chunk.ok() || chunk->bytes > channel.layout().staging_bytes) return 3;
      const std::byte* from = channel.IncomingSlot(chunk->slot);
      const std::optional<std::uint32_t> slot = channel.AcquireSlot();
      if (from == nullptr || !slot) return 4;
      std::memcpy(channel.OutgoingSlot(*slot), from, chunk->bytes);
      channel.ReleaseSlot(chunk->slot);
      Chunk back = *chunk;
      back.slot = *slot;
      if (channel.Post(back) == 0) return 5;
      continue;
    }
    return 6;
  }
  return 0;
}

TEST(ChannelThreads, TwoProcessesTalk) {
  ChannelEnds ends;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Answer(*ends.proxy));
  for (std::uint32_t i = 1; i <= 3000; ++i) {
    ASSERT_GT(ends.client->Post(MemoryInfo{}, i), 0U);
    const std::optional<Frame> frame = NextFrame(*ends.client);
    ASSERT_TRUE(frame);
    EXPECT_TRUE(frame->header.is_reply());
    EXPECT_EQ(frame->header.request, i);
    MemoryInfo::Reply reply;
    ASSERT_TRUE(DecodeFrom(frame->payload, reply));
    EXPECT_EQ(reply.total, i * 3);
    ends.client->Pop();
  }
  for (std::uint32_t i = 0; i < 500; ++i) {
    const std::optional<std::uint32_t> slot = ends.client->AcquireSlot();
    ASSERT_TRUE(slot);
    std::memset(ends.client->OutgoingSlot(*slot), static_cast<int>(i), kSmallLayout.staging_bytes);
    Chunk chunk;
    chunk.slot = *slot;
    chunk.transfer = i;
    chunk.bytes = static_cast<std::uint32_t>(kSmallLayout.staging_bytes);
    ASSERT_GT(ends.client->Post(chunk), 0U);
    const std::optional<Frame> frame = NextFrame(*ends.client);
    ASSERT_TRUE(frame);
    const Result<Chunk> back = ParseMessage<Chunk>(*frame);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->transfer, i);
    const std::byte* bytes = ends.client->IncomingSlot(back->slot);
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(bytes[0], static_cast<std::byte>(i));
    EXPECT_EQ(bytes[kSmallLayout.staging_bytes - 1], static_cast<std::byte>(i));
    ends.client->Pop();
    ends.client->ReleaseSlot(back->slot);
  }
  ends.client->Close(false);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The peer dies after writing half a frame, and its parent closes the channel.
TEST(ChannelThreads, AWaiterLeavesWhenAThirdPartyClosesTheChannel) {
  ChannelEnds ends;
  const std::unique_ptr<Channel> agent =
      ends.Attach(ChannelSide::kProxy, &ends.proxy_bell, ends.client_bell);
  std::thread waiter([&] { EXPECT_FALSE(NextFrame(*ends.client)); });
  agent->Close(true);
  waiter.join();
  EXPECT_TRUE(ends.client->lost());
}

}  // namespace
}  // namespace cuspan
