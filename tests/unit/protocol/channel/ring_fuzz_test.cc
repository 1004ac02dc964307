// Tests a consumer while its peer writes arbitrary data to the memory at any time. It never
// crashes, never returns a frame outside the ring, and always terminates.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/api/messages.h"
#include "tests/unit/protocol/channel/ring_memory.h"

namespace cuspan {
namespace {

// Takes all apparent frames until one is refused or the ring is empty; returns their number.
int ConsumeAll(RingConsumer& consumer, const RingMemory& memory) {
  int taken = 0;
  for (; taken < 100000; ++taken) {
    const Result<std::optional<Frame>> frame = consumer.Peek();
    if (!frame.ok() || !frame->has_value()) break;
    const Bytes payload = (*frame)->payload;
    EXPECT_GE(payload.data(), memory.mapping.data());
    EXPECT_LE(payload.data() + payload.size(), memory.mapping.data() + memory.mapping.size());
    EXPECT_LE(payload.size() + sizeof(FrameHeader), kMaxFrameBytes);
    std::byte sum{0};
    for (const std::byte b : payload) sum ^= b;
    static_cast<void>(sum);
    testing_messages::ParseAnything(**frame);
    consumer.Pop();
    consumer.PublishReleased();
  }
  return taken;
}

// Fills the ring with random bytes. Some slots look like published frames.
void Scribble(RingMemory& memory, std::mt19937_64& random, int honesty) {
  for (std::uint64_t slot = 0; slot < memory.slot_count; ++slot) {
    std::byte* at = memory.mapping.data() + slot * kSlotBytes;
    for (std::size_t i = 0; i < kSlotBytes; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(at + i, &word, sizeof word);
    }
    if (static_cast<int>(random() % 100) >= honesty) continue;
    const std::uint64_t published = slot + 1;
    FrameHeader header;
    header.op = static_cast<std::uint16_t>(random() % 200);
    header.flags = static_cast<std::uint8_t>(random() % 2);
    header.payload_bytes = static_cast<std::uint32_t>(
        random() % 5 == 0 ? random() % (2 * kMaxFrameBytes) : random() % 200);
    std::memcpy(at, &published, sizeof published);
    std::memcpy(at + sizeof published, &header, sizeof header);
  }
}

TEST(RingFuzz, RandomMemory) {
  std::mt19937_64 random(FuzzSeed(40));
  std::uint64_t taken = 0;
  for (int round = 0; round < 60; ++round) {
    RingMemory memory;
    Scribble(memory, random, round % 3 == 0 ? 30 : 100);
    memory.control->ticket = random();
    memory.control->released = random();
    memory.control->space_wanted = static_cast<std::uint32_t>(random());
    RingConsumer consumer = memory.Consumer();
    taken += static_cast<std::uint64_t>(ConsumeAll(consumer, memory));
  }
  EXPECT_GT(taken, 0U) << "the fuzz must get past the header";
}

TEST(RingFuzz, MemoryThatChangesWhileItIsRead) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a peer that writes where it must not is a data race";
#endif
  RingMemory memory;
  std::atomic<bool> done = false;
  std::thread vandal([&] {
    std::mt19937_64 random(FuzzSeed(41));
    auto* words = reinterpret_cast<std::atomic<std::uint32_t>*>(memory.mapping.data());
    const std::size_t count = kRingSlots * kSlotBytes / sizeof(std::uint32_t);
    while (!done.load())
      words[random() % count].store(static_cast<std::uint32_t>(random()),
                                    std::memory_order_relaxed);
  });
  std::mt19937_64 random(FuzzSeed(42));
  for (int round = 0; round < 60; ++round) {
    Scribble(memory, random, 100);
    RingConsumer consumer = memory.Consumer();
    ConsumeAll(consumer, memory);
  }
  done = true;
  vandal.join();
}

// A producer stays inside the ring, even if its peer reports a wrong number of released slots.
TEST(RingFuzz, ProducerWithARandomReleaseCount) {
  std::mt19937_64 random(FuzzSeed(43));
  RingMemory memory;
  RingProducer producer = memory.Producer();
  for (int round = 0; round < 5000; ++round) {
    memory.control->released =
        random() % 3 == 0 ? random() : memory.control->ticket + random() % 5000 - 2500;
    if (random() % 10 == 0) memory.control->ticket = random();
    const std::size_t bytes =
        sizeof(FrameHeader) + random() % (kMaxFrameBytes - sizeof(FrameHeader));
    const std::optional<RingProducer::Reservation> room = producer.TryReserve(bytes);
    if (!room) continue;
    EXPECT_GE(room->frame, memory.mapping.data());
    EXPECT_LE(room->frame + bytes, memory.mapping.data() + memory.mapping.size());
    std::memset(room->frame, 0x5a, bytes);
    producer.Publish(*room);
  }
}

}  // namespace
}  // namespace cuspan
