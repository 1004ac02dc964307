// Decoders of every op over bytes that no honest peer sends. What is asserted:
// no crash, no read outside (the sanitizer presets look), views within the
// input, and that whatever is accepted is written again as the same bytes.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

using testing_messages::Encoded;
using testing_messages::ForEachMessage;
using testing_messages::RandomFiller;

// Each `Bytes` field lies inside the input.
template <typename T>
void ExpectViewsInside(const T& value, Bytes input) {
  if constexpr (std::is_same_v<T, Bytes>) {
    if (value.empty()) return;
    EXPECT_GE(value.data(), input.data());
    EXPECT_LE(value.data() + value.size(), input.data() + input.size());
  } else if constexpr (testing_messages::IsVector<T>::value) {
    for (const auto& element : value) ExpectViewsInside(element, input);
  } else if constexpr (requires { T::VisitFields(value, [](const auto&) {}); }) {
    T::VisitFields(value, [&](const auto& field) { ExpectViewsInside(field, input); });
  }
}

template <typename T>
void DecodeAnything(const std::vector<std::byte>& bytes, const std::string& name) {
  T value;
  const bool accepted = DecodeFrom(bytes, value);
  ExpectViewsInside(value, bytes);
  if (accepted) {
    EXPECT_EQ(Encoded(value), bytes) << name;
  }
}

TEST(DecoderFuzz, RandomBytes) {
  std::mt19937_64 random(20);
  ForEachMessage([&]<typename T>(const std::string& name) {
    for (int round = 0; round < 500; ++round) {
      std::vector<std::byte> bytes(random() % 200);
      // Small numbers are likelier to be taken for counts.
      const bool small = random() % 2 == 0;
      for (std::byte& b : bytes)
        b = static_cast<std::byte>(small && random() % 4 != 0 ? random() % 3 : random());
      DecodeAnything<T>(bytes, name);
    }
  });
}

TEST(DecoderFuzz, DamagedMessages) {
  std::mt19937_64 random(21);
  RandomFiller fill(22);
  ForEachMessage([&]<typename T>(const std::string& name) {
    for (int round = 0; round < 300; ++round) {
      T value;
      fill(value);
      std::vector<std::byte> bytes = Encoded(value);
      if (bytes.empty()) continue;
      for (std::uint64_t damage = random() % 4 + 1; damage > 0; --damage) {
        std::byte& place = bytes[random() % bytes.size()];
        place = static_cast<std::byte>(random() % 2 == 0 ? 0xff : random());
      }
      if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
      DecodeAnything<T>(std::vector<std::byte>(bytes), name);
    }
  });
}

}  // namespace
}  // namespace cuspan
