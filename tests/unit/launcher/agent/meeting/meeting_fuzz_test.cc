// Two agents that meet, and somebody between them who changes what they say: each ends with the
// other, or with a failure, and nobody is let in whose proof was changed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/fuzz_seed.h"
#include "tests/unit/launcher/agent/meeting/meetings.h"

namespace cuspan {
namespace {

// What is done to one direction of a connection, once.
struct Damage {
  enum class Kind { kFlip, kInsert, kDrop, kCut };
  Kind kind = Kind::kFlip;
  bool to_home = false;
  std::size_t offset = 0;        // In what is said in that direction.
  std::vector<std::byte> bytes;  // For kFlip one, not 0; as many are inserted or dropped.
};

// Between whoever connects to `place` and the head agent. A thread of its own.
class Middle {
 public:
  Middle(const net::Address& home, Damage damage)
      : home_(home), damage_(std::move(damage)), listener_(*net::Listener::OpenOnAll(1)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Middle() {
    if (thread_.joinable()) thread_.join();
  }
  // After the end of both agents: whether it has come to what it was to change.
  bool Finish() {
    thread_.join();
    return done_;
  }
  net::Address place() const {
    net::Address place = home_;
    place.port = listener_.address().port;
    return place;
  }

 private:
  void Run() {
    pollfd waited{listener_.fd(), POLLIN, 0};
    if (::poll(&waited, 1, 10'000) != 1) return;
    const UniqueFd away(::accept(listener_.fd(), nullptr, nullptr));
    const std::shared_ptr<net::Interrupt> never = *net::Interrupt::Make("");
    const Result<UniqueFd> home = net::Connect(home_, *never, InTime());
    if (!home.ok()) return;
    const int ends[2] = {away.get(), home->get()};
    std::size_t said[2] = {0, 0};
    for (;;) {
      pollfd both[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
      // Who waits for what was dropped, or for more than there is, waits for the end.
      if (::poll(both, 2, done_ ? 20 : 10'000) <= 0) return;
      for (const int from : {0, 1}) {
        if (both[from].revents == 0) continue;
        std::byte buffer[4096];
        const ssize_t got = ::recv(ends[from], buffer, sizeof buffer, 0);
        if (got <= 0) return;
        std::vector<std::byte> bytes(buffer, buffer + got);
        const std::size_t start = said[from];
        said[from] += bytes.size();
        bool cut = false;
        if (!done_ && damage_.to_home == (from == 0) && damage_.offset >= start &&
            damage_.offset < said[from])
          cut = Apply(bytes, damage_.offset - start);
        if (::send(ends[1 - from], bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 || cut) return;
      }
    }
  }

  // True where the connection ends behind them.
  bool Apply(std::vector<std::byte>& bytes, std::size_t at) {
    done_ = true;
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (damage_.kind) {
      case Damage::Kind::kFlip:
        *place ^= damage_.bytes.front();
        return false;
      case Damage::Kind::kInsert:
        bytes.insert(place, damage_.bytes.begin(), damage_.bytes.end());
        return false;
      case Damage::Kind::kDrop:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(
                                       std::min(damage_.bytes.size(), bytes.size() - at)));
        return false;
      case Damage::Kind::kCut:
        bytes.resize(at);
        return true;
    }
    return false;
  }

  const net::Address home_;
  const Damage damage_;
  const net::Listener listener_;
  bool done_ = false;
  std::thread thread_;
};

Damage AnyDamage(std::mt19937_64& random) {
  Damage damage;
  damage.kind = static_cast<Damage::Kind>(random() % 4);
  damage.to_home = random() % 2 == 0;
  damage.offset = random() % 260;  // A little more than each says.
  damage.bytes.resize(1 + random() % 40);
  for (std::byte& byte : damage.bytes) byte = static_cast<std::byte>(1 + random() % 255);
  return damage;
}

// Where a change must be noticed: in what proves that each knows the secret.
bool IsOfProof(const Damage& damage) {
  const std::size_t end =
      damage.to_home ? sizeof(Meeting::Response) : sizeof(Meeting::Challenge) + sizeof(Proof);
  return damage.offset < end;
}

TEST(MeetingFuzz, ChangedInBetween) {
  std::mt19937_64 random(FuzzSeed(70));
  int attended_changed = 0;
  int attended_again = 0;
  for (int round = 0; round < 150; ++round) {
    const Damage damage = AnyDamage(random);
    SCOPED_TRACE(Format("round {}: kind {}, {}, offset {}, {} bytes", round,
                        static_cast<int>(damage.kind), damage.to_home ? "to home" : "from home",
                        damage.offset, damage.bytes.size()));
    Host host;
    auto held = std::async(std::launch::async, [&] { return host.Hold(2, AgentAt("home")); });
    std::optional<Middle> middle(std::in_place, host.near(), damage);
    const auto attend = [](const net::Address& place) {
      return Meeting::Attend(std::array{place}, kTestSecret, 1, AgentAt("away"), InTime());
    };
    std::optional<Result<Meeting>> met = attend(middle->place());
    // The head agent waits for one that is as it should be, unless it has ended by what it heard.
    std::future<Result<Meeting>> another;
    const bool attended = met->ok();
    if (!attended) another = std::async(std::launch::async, attend, host.near());
    std::optional<Result<Meeting>> home = held.get();
    host.Close();
    EXPECT_EQ(home->status().message().find("in time"), std::string::npos);
    if (attended) {
      EXPECT_TRUE(home->ok()) << home->status().message();
      EXPECT_FALSE(IsOfProof(damage));
    } else if (const Result<Meeting> second = another.get(); second.ok()) {
      EXPECT_TRUE(home->ok()) << home->status().message();
      ++attended_again;
    }
    // Where nothing was changed, the one in between goes on until both have ended.
    const std::string problem = met->status().message();
    met.reset();
    home.reset();
    const bool changed = middle->Finish();
    if (!changed) {
      EXPECT_TRUE(attended) << problem;
    }
    if (changed && attended) ++attended_changed;
  }
  // What is text for messages may change; and who fails leaves room for another.
  EXPECT_GT(attended_changed, 0);
  EXPECT_GT(attended_again, 0);
}

}  // namespace
}  // namespace cuspan
