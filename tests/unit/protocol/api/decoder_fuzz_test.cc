// Feeds the decoders of all ops with bytes no correct peer sends. There must be no crash, no read
// outside the input (checked by the sanitizer presets) and no view outside of it. Accepted input
// must be encoded to the same bytes again.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

using testing_messages::ForEachMessage;
using testing_messages::Message;
using testing_messages::RandomSource;

void DecodeAnything(const Message& type, const std::vector<std::byte>& bytes,
                    const std::string& name) {
  const std::unique_ptr<Message> value = type.New();
  const bool accepted = value->DecodeFrom(bytes);
  EXPECT_TRUE(value->ViewsAreInside(bytes)) << name;
  if (accepted) {
    EXPECT_EQ(value->Encoded(), bytes) << name;
  }
}

TEST(DecoderFuzz, RandomBytes) {
  std::mt19937_64 random(FuzzSeed(20));
  ForEachMessage([&random](const Message& type, const std::string& name) {
    for (int round = 0; round < 500; ++round) {
      std::vector<std::byte> bytes(random() % 200);
      // Small numbers are more often valid counts.
      const bool small = random() % 2 == 0;
      for (std::byte& b : bytes)
        b = static_cast<std::byte>(small && random() % 4 != 0 ? random() % 3 : random());
      DecodeAnything(type, bytes, name);
    }
  });
}

TEST(DecoderFuzz, DamagedMessages) {
  std::mt19937_64 random(FuzzSeed(21));
  RandomSource values(FuzzSeed(22));
  ForEachMessage([&](const Message& type, const std::string& name) {
    for (int round = 0; round < 300; ++round) {
      const std::unique_ptr<Message> value = type.New();
      value->Fill(values);
      std::vector<std::byte> bytes = value->Encoded();
      if (bytes.empty()) continue;
      for (std::uint64_t damage = random() % 4 + 1; damage > 0; --damage) {
        std::byte& place = bytes[random() % bytes.size()];
        place = static_cast<std::byte>(random() % 2 == 0 ? 0xff : random());
      }
      if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
      DecodeAnything(type, std::vector<std::byte>(bytes), name);
    }
  });
}

}  // namespace
}  // namespace cuspan
