// Encodes and decodes every message of the op table with random contents. Values come back
// unchanged or fail as a whole, and writes stay within the buffer.
#include <gtest/gtest.h>

#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

using testing_messages::ForEachMessage;
using testing_messages::Message;
using testing_messages::RandomSource;

constexpr int kRandomValues = 20;

// Calls `use` for the default value and random values of each message.
void ForEachValue(std::uint64_t seed,
                  const std::function<void(const Message& value, const std::string& name,
                                           RandomSource& random)>& use) {
  RandomSource random(seed);
  ForEachMessage([&](const Message& type, const std::string& name) {
    for (int round = 0; round <= kRandomValues; ++round) {
      const std::unique_ptr<Message> value = type.New();
      if (round != 0) value->Fill(random);
      use(*value, name, random);
    }
  });
}

TEST(MessagesFuzz, EveryMessageComesBackAsItWas) {
  ForEachValue(FuzzSeed(31),
               [](const Message& original, const std::string& name, RandomSource& random) {
                 const std::vector<std::byte> bytes = original.Encoded();
                 const std::unique_ptr<Message> decoded = original.New();
                 decoded->Fill(random);  // Old values must be overwritten.
                 ASSERT_TRUE(decoded->DecodeFrom(bytes)) << name;
                 EXPECT_EQ(decoded->Described(), original.Described()) << name;
               });
}

TEST(MessagesFuzz, EveryMessageRefusesToBeCutShort) {
  ForEachValue(FuzzSeed(41), [](const Message& original, const std::string& name, RandomSource&) {
    const std::vector<std::byte> bytes = original.Encoded();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      // A separate allocation lets a sanitizer detect reads past its end.
      const std::vector<std::byte> cut(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(length));
      ASSERT_FALSE(original.New()->DecodeFrom(cut)) << name << " of " << length << " bytes";
    }
  });
}

TEST(MessagesFuzz, EveryMessageRefusesBytesThatAreLeftOver) {
  ForEachValue(FuzzSeed(42), [](const Message& original, const std::string& name, RandomSource&) {
    std::vector<std::byte> bytes = original.Encoded();
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(original.New()->DecodeFrom(bytes)) << name;
  });
}

TEST(MessagesFuzz, EncodingNeverWritesBeyondItsBuffer) {
  RandomSource random(FuzzSeed(43));
  ForEachMessage([&random](const Message& type, const std::string& name) {
    const std::unique_ptr<Message> value = type.New();
    value->Fill(random);
    const std::size_t size = value->EncodedSize();
    for (std::size_t room = 0; room < size; ++room) {
      std::vector<std::byte> buffer(room + 8, std::byte{0xee});
      ASSERT_FALSE(value->EncodeInto(std::span(buffer).first(room))) << name;
      for (std::size_t i = room; i < buffer.size(); ++i)
        ASSERT_EQ(buffer[i], std::byte{0xee}) << name;
    }
  });
}

}  // namespace
}  // namespace cuspan
