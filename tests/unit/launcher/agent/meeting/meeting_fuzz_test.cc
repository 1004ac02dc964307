// A meeting of two agents, with changes to the bytes between them. Each agent meets the other or
// fails. An agent with a changed proof is never accepted.
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

// One change to one direction of a connection.
struct Damage {
  enum class Kind { kFlip, kInsert, kDrop, kCut };
  Kind kind = Kind::kFlip;
  bool to_home = false;
  std::size_t offset = 0;        // Offset in this direction's bytes.
  std::vector<std::byte> bytes;  // kFlip: one byte, not 0. kInsert, kDrop: their number counts.
};

// Forwards between the agent connected to `place` and the head agent. Has its own thread.
class Middle {
 public:
  Middle(const net::Address& home, Damage damage)
      : home_(home), damage_(std::move(damage)), listener_(*net::Listener::OpenOnAll(1)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Middle() {
    if (thread_.joinable()) thread_.join();
  }
  // Returns true if the change was applied. Called after the end of both agents.
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
      // An agent still waiting for dropped or missing bytes ends when the connection does.
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

  // Returns true if the connection ends after these bytes.
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
  damage.offset = random() % 260;  // Slightly more than each sends.
  damage.bytes.resize(1 + random() % 40);
  for (std::byte& byte : damage.bytes) byte = static_cast<std::byte>(1 + random() % 255);
  return damage;
}

// True if the change hits the proof of the secret, so it must be noticed.
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
    // The head agent waits for a valid agent, unless a changed message has ended it.
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
    // If the change was not applied, the forwarding continues until both agents have ended.
    const std::string problem = met->status().message();
    met.reset();
    home.reset();
    const bool changed = middle->Finish();
    if (!changed) {
      EXPECT_TRUE(attended) << problem;
    }
    if (changed && attended) ++attended_changed;
  }
  // Changed texts for messages are accepted, and another agent can join after a failed one.
  EXPECT_GT(attended_changed, 0);
  EXPECT_GT(attended_again, 0);
}

}  // namespace
}  // namespace cuspan
