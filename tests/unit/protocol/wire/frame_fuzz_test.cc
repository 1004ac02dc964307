// Calls ParseFrame with bytes no correct peer sends. It never crashes and never reads outside the
// input (checked by the sanitizer presets). Accepted frames are as described in frame.h.
#include <gtest/gtest.h>

#include <random>

#include "protocol/wire/frame.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

void ParseAnything(const std::vector<std::byte>& bytes, std::size_t max_bytes) {
  const Result<Frame> frame = ParseFrame(bytes, max_bytes);
  if (!frame.ok()) {
    EXPECT_FALSE(frame.status().message().empty());
    return;
  }
  EXPECT_EQ(frame->header.magic, kFrameMagic);
  EXPECT_EQ(frame->header.version, kFrameVersion);
  EXPECT_EQ(frame->payload.data(), bytes.data() + sizeof(FrameHeader));
  EXPECT_EQ(frame->payload.size(), frame->header.payload_bytes);
  EXPECT_LE(sizeof(FrameHeader) + frame->payload.size(), std::min(bytes.size(), max_bytes));
  testing_messages::ParseAnything(*frame);
}

TEST(FrameFuzz, RandomBytes) {
  std::mt19937_64 random(FuzzSeed(30));
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 128);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    ParseAnything(bytes, kMaxFrameBytes);
  }
}

TEST(FrameFuzz, RandomHeadersThatStartRight) {
  std::mt19937_64 random(FuzzSeed(31));
  for (int round = 0; round < 50000; ++round) {
    FrameHeader header;
    if (random() % 8 == 0) header.version = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) header.flags = static_cast<std::uint8_t>(random() % 4);
    header.op = static_cast<std::uint16_t>(random() % 200);
    if (random() % 8 == 0) header.zero = static_cast<std::uint16_t>(random());
    header.payload_bytes =
        static_cast<std::uint32_t>(random() % 3 == 0 ? random() : random() % 160);
    header.request = static_cast<std::uint32_t>(random());
    header.sequence = random();
    std::vector<std::byte> bytes(sizeof header + random() % 128);
    std::memcpy(bytes.data(), &header, sizeof header);
    for (std::size_t i = sizeof header; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(random() % 5);
    ParseAnything(bytes, random() % 4 == 0 ? sizeof header + random() % 64 : kMaxFrameBytes);
  }
}

}  // namespace
}  // namespace cuspan
