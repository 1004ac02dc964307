#include "protocol/channel/ring.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/protocol/channel/ring_memory.h"

namespace cuspan {
namespace {

constexpr std::size_t kHeader = sizeof(FrameHeader);

// Returns a byte depending on its position and on its frame.
std::byte Pattern(std::uint64_t frame, std::size_t place) {
  return static_cast<std::byte>(frame * 31 + place * 7);
}

// Posts frame number `number` of `bytes`; false if the ring is full.
bool Post(RingProducer& producer, std::uint32_t number, std::size_t bytes) {
  const std::optional<RingProducer::Reservation> room = producer.TryReserve(bytes);
  if (!room) return false;
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(Op::kDeviceOutput);
  header.request = number;
  header.sequence = room->sequence;
  header.payload_bytes = static_cast<std::uint32_t>(bytes - kHeader);
  std::memcpy(room->frame, &header, kHeader);
  for (std::size_t i = kHeader; i < bytes; ++i) room->frame[i] = Pattern(number, i);
  producer.Publish(*room);
  return true;
}

// Takes the next frame, and expects frame number `number` of `bytes`.
void ExpectNext(RingConsumer& consumer, std::uint32_t number, std::size_t bytes) {
  ASSERT_TRUE(consumer.HasFrame());
  const Result<std::optional<Frame>> frame = consumer.Peek();
  ASSERT_TRUE(frame.ok()) << frame.status().message();
  ASSERT_TRUE(frame->has_value());
  EXPECT_EQ((*frame)->header.request, number);
  const Bytes payload = (*frame)->payload;
  ASSERT_EQ(payload.size(), bytes - kHeader);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < payload.size(); ++i)
    wrong += payload[i] != Pattern(number, i + kHeader) ? 1 : 0;
  EXPECT_EQ(wrong, 0U) << "of frame " << number;
  consumer.Pop();
}

TEST(Ring, IsEmptyAtFirst) {
  RingMemory memory;
  RingConsumer consumer = memory.Consumer();
  EXPECT_FALSE(consumer.HasFrame());
  const Result<std::optional<Frame>> frame = consumer.Peek();
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->has_value());
  EXPECT_TRUE(memory.Producer().HasRoom(kMaxFrameBytes));
}

TEST(Ring, AFrameIsSeenWhenItIsPublished) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  const std::optional<RingProducer::Reservation> room = producer.TryReserve(kHeader);
  ASSERT_TRUE(room);
  EXPECT_GT(room->sequence, 0U);
  EXPECT_FALSE(consumer.HasFrame());
  const FrameHeader header;
  std::memcpy(room->frame, &header, kHeader);
  EXPECT_FALSE(consumer.HasFrame());
  producer.Publish(*room);
  EXPECT_TRUE(consumer.HasFrame());
}

TEST(Ring, FramesComeInTheOrderOfTheirReservations) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  const std::optional<RingProducer::Reservation> first = producer.TryReserve(kHeader);
  const std::optional<RingProducer::Reservation> second = producer.TryReserve(kHeader);
  ASSERT_TRUE(first && second);
  EXPECT_GT(second->sequence, first->sequence);
  for (const auto& [room, number] : {std::pair(*second, 2U), std::pair(*first, 1U)}) {
    FrameHeader header;
    header.request = number;
    std::memcpy(room.frame, &header, kHeader);
    EXPECT_FALSE(consumer.HasFrame()) << "the first is not there yet";
    producer.Publish(room);
  }
  ExpectNext(consumer, 1, kHeader);
  ExpectNext(consumer, 2, kHeader);
}

TEST(Ring, PeekShowsTheSameFrameUntilPop) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  ASSERT_TRUE(Post(producer, 1, 100));
  ASSERT_TRUE(Post(producer, 2, 200));
  for (int i = 0; i < 3; ++i) EXPECT_EQ((**consumer.Peek()).header.request, 1U);
  consumer.Pop();
  EXPECT_EQ((**consumer.Peek()).header.request, 2U);
}

// Frames of each size reach the end of the ring somewhere. Across the end, they are still
// contiguous.
TEST(Ring, CarriesFramesOfAllSizesOverItsEnd) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  std::uint32_t number = 0;
  const auto carry = [&](std::size_t bytes) {
    ASSERT_TRUE(Post(producer, ++number, bytes)) << bytes;
    ExpectNext(consumer, number, bytes);
    consumer.PublishReleased();
  };
  for (std::size_t bytes = kHeader; bytes < 1000; ++bytes) carry(bytes);
  for (std::size_t bytes = 1000; bytes < kMaxFrameBytes; bytes += 61) carry(bytes);
  for (std::size_t bytes = kMaxFrameBytes - 70; bytes <= kMaxFrameBytes; ++bytes) carry(bytes);
}

TEST(Ring, StartsOverManyTimesWithSmallFrames) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  for (std::uint32_t number = 1; number < 20 * kRingSlots; ++number) {
    ASSERT_TRUE(Post(producer, number, kHeader + number % 150));
    ExpectNext(consumer, number, kHeader + number % 150);
    consumer.PublishReleased();
  }
}

TEST(Ring, IsFullWhenItIsFull) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  std::uint32_t posted = 0;
  while (Post(producer, posted + 1, kHeader)) ++posted;
  EXPECT_EQ(posted, kRingSlots);
  EXPECT_FALSE(producer.HasRoom(kHeader));
  // A refused frame has no effect.
  EXPECT_FALSE(producer.TryReserve(kMaxFrameBytes));
  EXPECT_FALSE(producer.TryReserve(kHeader));
  for (std::uint32_t number = 1; number <= posted; ++number) ExpectNext(consumer, number, kHeader);
  EXPECT_FALSE(consumer.HasFrame());
}

TEST(Ring, RoomComesBackWhenTheConsumerShowsIt) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  std::uint32_t posted = 0;
  while (Post(producer, posted + 1, 1000)) ++posted;
  ExpectNext(consumer, 1, 1000);
  EXPECT_EQ(consumer.UnpublishedReleaseSlots(), 16U)
      << "8 bytes and a frame of 1000 in slots of 64";
  EXPECT_FALSE(producer.HasRoom(1000)) << "not shown yet";
  EXPECT_FALSE(consumer.PublishReleased()) << "nobody asked";
  EXPECT_EQ(consumer.UnpublishedReleaseSlots(), 0U);
  EXPECT_TRUE(producer.HasRoom(1000));
  EXPECT_TRUE(Post(producer, ++posted, 1000));
}

TEST(Ring, TellsTheConsumerOnceThatSomebodyWaitsForRoom) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  ASSERT_TRUE(Post(producer, 1, 100));
  producer.WantSpace();
  ExpectNext(consumer, 1, 100);
  EXPECT_TRUE(consumer.PublishReleased());
  EXPECT_FALSE(consumer.PublishReleased());
}

// Contents of old frames are never taken for a new frame.
TEST(Ring, OldContentsNeverLookPublished) {
  RingMemory memory;
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  std::uint32_t number = 0;
  for (int round = 0; round < 200; ++round) {
    // If read as slot headers, these contents would publish later slots.
    const std::optional<RingProducer::Reservation> room = producer.TryReserve(kMaxFrameBytes);
    ASSERT_TRUE(room);
    FrameHeader header;
    header.request = ++number;
    header.payload_bytes = kMaxFrameBytes - kHeader;
    std::memcpy(room->frame, &header, kHeader);
    for (std::uint64_t slot = 1; slot * kSlotBytes + 8 <= kMaxFrameBytes; ++slot) {
      const std::uint64_t later = room->slot + slot + 1 + kRingSlots;
      std::memcpy(room->frame + slot * kSlotBytes - 8, &later, sizeof later);
    }
    producer.Publish(*room);
    ASSERT_TRUE((**consumer.Peek()).header.request == number);
    consumer.Pop();
    consumer.PublishReleased();
    EXPECT_FALSE(consumer.HasFrame());
    // The next frame is reserved, but not published: the consumer must see nothing.
    const std::optional<RingProducer::Reservation> silent = producer.TryReserve(kHeader);
    ASSERT_TRUE(silent);
    EXPECT_FALSE(consumer.HasFrame());
    const FrameHeader empty;
    std::memcpy(silent->frame, &empty, kHeader);
    producer.Publish(*silent);
    ASSERT_TRUE(consumer.HasFrame());
    ASSERT_TRUE((*consumer.Peek()).has_value());
    consumer.Pop();
    consumer.PublishReleased();
  }
}

TEST(Ring, RefusesAFrameThatNoHonestProducerWrites) {
  for (const std::size_t offset : {0, 2, 3, 6, 10, 11}) {  // magic, version, flags, zero, length
    RingMemory memory;
    RingProducer producer = memory.Producer();
    RingConsumer consumer = memory.Consumer();
    const std::optional<RingProducer::Reservation> room = producer.TryReserve(100);
    ASSERT_TRUE(room);
    const FrameHeader header;
    std::memcpy(room->frame, &header, kHeader);
    room->frame[offset] = std::byte{0xfe};
    producer.Publish(*room);
    const Result<std::optional<Frame>> frame = consumer.Peek();
    EXPECT_FALSE(frame.ok()) << "offset " << offset;
    EXPECT_FALSE(frame.status().message().empty());
  }
}

// A large ring has room for these bytes, but a frame has at most kMaxFrameBytes.
TEST(Ring, RefusesAFrameThatIsTooLarge) {
  RingMemory memory(16 * kRingSlots);
  RingProducer producer = memory.Producer();
  RingConsumer consumer = memory.Consumer();
  ASSERT_TRUE(Post(producer, 1, kMaxFrameBytes + 1));
  EXPECT_EQ(consumer.Peek().status().code(), StatusCode::kInvalid);
}

TEST(Ring, ManyProducersLoseNothingAndKeepTheirOrder) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kFrames = 5000;
  RingMemory memory;
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&memory, thread] {
      RingProducer producer = memory.Producer();
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        const std::size_t bytes =
            i % 1000 == 999 ? kMaxFrameBytes : kHeader + (i * 37 + thread) % 700;
        while (!Post(producer, thread << 16 | i, bytes)) std::this_thread::yield();
      }
    });
  }
  RingConsumer consumer = memory.Consumer();
  std::vector<std::uint32_t> next(kThreads, 0);
  std::uint64_t last_sequence = 0;
  for (std::uint32_t taken = 0; taken < kThreads * kFrames;) {
    const Result<std::optional<Frame>> frame = consumer.Peek();
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    if (!frame->has_value()) {
      consumer.PublishReleased();
      std::this_thread::yield();
      continue;
    }
    const std::uint32_t number = (*frame)->header.request;
    const std::uint64_t sequence = (*frame)->header.sequence;
    const std::uint32_t thread = number >> 16;
    ASSERT_LT(thread, kThreads);
    const std::uint32_t i = next[thread]++;
    EXPECT_GT(sequence, last_sequence);
    last_sequence = sequence;
    ExpectNext(consumer, thread << 16 | i,
               i % 1000 == 999 ? kMaxFrameBytes : kHeader + (i * 37 + thread) % 700);
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(consumer.HasFrame());
}

// While one thread posts and another takes, a ring with room never reports that it is full.
TEST(Ring, NeverSaysFullWhenItIsNot) {
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kFrames = 30000;
  RingMemory memory;
  std::atomic<std::uint32_t> in_ring = 0;  // Frames of one slot; less than the ring's size.
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      RingProducer producer = memory.Producer();
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        while (in_ring.fetch_add(1) >= kRingSlots / 2) {
          in_ring.fetch_sub(1);
          std::this_thread::yield();
        }
        EXPECT_TRUE(Post(producer, i, kHeader));
      }
    });
  }
  RingConsumer consumer = memory.Consumer();
  for (std::uint32_t taken = 0; taken < kThreads * kFrames;) {
    if (!consumer.HasFrame()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_TRUE(consumer.Peek().ok());
    consumer.Pop();
    consumer.PublishReleased();
    in_ring.fetch_sub(1);
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cuspan
