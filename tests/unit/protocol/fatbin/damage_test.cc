// Reads truncated and changed fat binaries. The result is an error or a list of spans inside the
// input. Reads stay inside the input (checked under the asan preset).
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/payload.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

// Reads and decodes a copy of the exact size. Thus a sanitizer detects any byte too far.
bool ReadsSafely(const std::uint8_t* data, std::size_t size) {
  std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[size]);
  std::copy(data, data + size, copy.get());
  auto container = ReadContainer({copy.get(), size});
  if (!container.ok()) {
    EXPECT_FALSE(container.status().message().empty());
    return false;
  }
  bool all = true;
  for (const Entry& entry : container->entries) {
    EXPECT_GE(entry.payload.data(), copy.get());
    EXPECT_LE(entry.payload.data() + entry.payload.size(), copy.get() + size);
    all = DecodePayload(entry, 1 << 20).ok() && all;
  }
  return all;
}

TEST(DamageTest, EveryTruncationIsAnError) {
  for (const char* name : {"default", "size", "debug"}) {
    SCOPED_TRACE(name);
    const auto bytes = ReadSample(name);
    ASSERT_TRUE(ReadsSafely(bytes.data(), bytes.size()));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(ReadContainer({bytes.data(), size}).ok()) << "cut to " << size;
    }
  }
}

TEST(DamageTest, EveryBitOfTheHeadersMayFlip) {
  for (const char* name : {"default", "speed", "debug", "many"}) {
    SCOPED_TRACE(name);
    const auto bytes = ReadSample(name);
    auto container = ReadContainer(bytes);
    ASSERT_TRUE(container.ok());
    // Header of the container, then of each entry.
    std::vector<std::pair<std::size_t, std::size_t>> headers = {{0, 16}};
    std::size_t at = 16;
    for (const Entry& entry : container->entries) {
      const std::size_t payload = entry.payload.data() - bytes.data();
      headers.emplace_back(at, payload);
      at = payload + (entry.payload.size() + 7) / 8 * 8;
    }
    for (const auto& [begin, end] : headers) {
      for (std::size_t byte = begin; byte < end; ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
          auto changed = bytes;
          changed[byte] ^= static_cast<std::uint8_t>(1 << bit);
          ReadsSafely(changed.data(), changed.size());
        }
      }
    }
  }
}

TEST(DamageTest, FieldsSetToExtremesAreHandled) {
  const auto bytes = ReadSample("default");
  for (std::size_t at = 0; at + 8 <= 16 + 64; ++at) {
    for (const std::uint8_t fill : {0x00, 0x7f, 0x80, 0xff}) {
      auto changed = bytes;
      std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(at), 8, fill);
      ReadsSafely(changed.data(), changed.size());
    }
  }
}

TEST(DamageTest, RandomPayloadsAreHandled) {
  std::mt19937_64 random(FuzzSeed(20240607));
  for (const char* name : {"size", "speed"}) {
    const auto bytes = ReadSample(name);
    for (int round = 0; round < 2000; ++round) {
      auto changed = bytes;
      for (int i = 0; i < 4; ++i) {
        changed[16 + random() % (changed.size() - 16)] = static_cast<std::uint8_t>(random());
      }
      ReadsSafely(changed.data(), changed.size());
    }
  }
}

TEST(DamageTest, WrongMagicAndVersionAreNamed) {
  auto bytes = ReadSample("default");
  bytes[0] ^= 1;
  EXPECT_EQ(ReadContainer(bytes).status().code(), StatusCode::kInvalid);
  bytes[0] ^= 1;
  bytes[4] = 2;
  EXPECT_EQ(ReadContainer(bytes).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(ContainerBytes(bytes.data()).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace cuspan::fatbin
