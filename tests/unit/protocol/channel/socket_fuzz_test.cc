// A peer sends random bytes. The receiver returns messages or an error.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

#include "protocol/channel/socket.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

TEST(SocketFuzz, RandomBytesAndDamagedFrames) {
  std::mt19937_64 random(FuzzSeed(60));
  for (int round = 0; round < 1500; ++round) {
    auto pair = ControlSocket::Pair();
    ASSERT_TRUE(pair.ok());
    std::vector<std::byte> bytes;
    for (std::uint64_t part = random() % 4; part > 0; --part) {
      RemoteLost lost;
      lost.reason.assign(random() % 100, 'r');
      std::vector<std::byte> frame = MakeFrame(lost);
      if (random() % 3 == 0) frame[random() % frame.size()] = static_cast<std::byte>(random());
      bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    const std::uint64_t tail = random() % 60;
    for (std::uint64_t i = 0; i < tail; ++i) bytes.push_back(static_cast<std::byte>(random()));
    ASSERT_EQ(::send(pair->first.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    { const ControlSocket gone = std::move(pair->first); }
    for (;;) {
      const Result<std::optional<ControlSocket::Message>> message = pair->second.TryReceive();
      if (!message.ok()) break;  // At the latest at the end of the stream.
      if (!message->has_value()) continue;
      const Frame& frame = (*message)->frame;
      EXPECT_EQ(frame.payload.size(), frame.header.payload_bytes);
      testing_messages::ParseAnything(frame);
    }
  }
}

}  // namespace
}  // namespace cuspan
